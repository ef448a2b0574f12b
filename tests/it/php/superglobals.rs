//! `$_REQUEST`, `$_COOKIE` and their relatives, request after request and beside each other.

use crate::harness::{Kind, Setup, TOKAMAK, check, form, get, in_parallel, on_every_server, row};

on_every_server! { request_is_made_where_it_is_used, cookies, requests_do_not_mix }

fn request_is_made_where_it_is_used(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    check(
        &server,
        vec![
            row("unused", get("/request.php?q=1")).body("unused"),
            row("used", get("/request.php?use=here&q=2")).body(r#"{"use":"here","q":"2"}"#),
            row("not stale", get("/request.php?use=here&r=3")).body(r#"{"use":"here","r":"3"}"#),
            row("in an included file", get("/request.php?use=included&q=4"))
                .body(r#"included {"use":"included","q":"4"}"#),
            row("included, not stale", get("/request.php?use=included"))
                .body(r#"included {"use":"included"}"#),
            row("unused after use", get("/request.php?q=5")).body("unused"),
            row("form wins", form("/request.php?use=here&q=get", "q=post"))
                .body(r#"{"use":"here","q":"post"}"#),
            row("form is gone", get("/request.php?use=here")).body(r#"{"use":"here"}"#),
        ],
    );
}

fn cookies(kind: Kind) {
    let server = Setup::new(kind).start();
    let cookie = |value: &str| get("/cookies.php").header("Cookie", value);
    check(
        &server,
        vec![
            row("two", cookie("a=1; b=two%20words")).body(r#"{"a":"1","b":"two words"}"#),
            row("none after them", get("/cookies.php")).body("[]"),
            row("first wins", cookie("a=1; a=2")).body(r#"{"a":"1"}"#),
            row("array", cookie("a[x]=1; a[y]=2")).body(r#"{"a":{"x":"1","y":"2"}}"#),
            row("malformed", cookie("=x; lonely; b=; c=1=2; ;; d e=f;g=h"))
                .body(r#"{"lonely":"","b":"","c":"1=2","d_e":"f","g":"h"}"#),
            row(
                "several fields",
                get("/cookies.php").header("Cookie", "a=1").header("Cookie", "b=2"),
            )
            .body(r#"{"a":"1","b":"2"}"#)
            .only(TOKAMAK),
        ],
    );
}

fn requests_do_not_mix(kind: Kind) {
    let server = Setup::new(kind).start();
    in_parallel(100, |number| {
        let own = format!("own{number}");
        let request = form(&format!("/superglobals.php?g={own}"), &format!("p={own}"));
        let seen = server.send(&request.header("Cookie", &format!("c={own}"))).expect(200).json();
        for pointer in ["/get/g", "/post/p", "/cookie/c", "/request/g", "/request/p"] {
            assert_eq!(seen.pointer(pointer).unwrap(), &own, "{pointer} in {seen}");
        }
        let bare = server.get("/superglobals.php").expect(200).text();
        assert!(!bare.contains("own"), "something of another request: {bare}");
    });
}
