//! Scripts of the kind that lighttpd documents for mod_magnet, written anew: each answers the same
//! requests in the same way under lighttpd and under Tokamak.

use super::servers::{Hook, Scripted};
use crate::harness::{Request, Response, get, post};

/// What has to be the same, beside status and body.
const HEADERS: [&str; 13] = [
    "location",
    "set-cookie",
    "www-authenticate",
    "cache-control",
    "content-length",
    "x-accept",
    "x-gone",
    "x-kind",
    "x-method",
    "x-none",
    "x-query",
    "x-seen",
    "x-was",
];

/// What a client sees of a response, as far as the servers should agree.
fn seen(response: &Response) -> String {
    let mut text = format!("{}\n", response.status());
    let is_error = response.status() >= 400;
    for name in HEADERS {
        // Each server has its own error pages. With its own, lighttpd drops the other fields that a
        // script has set.
        if !is_error || name == "www-authenticate" {
            for value in response.head.all(name) {
                text.push_str(&format!("{name}: {value}\n"));
            }
        }
    }
    for head in &response.interim {
        text.push_str(&format!("interim {} {:?}\n", head.status, head.header("x-seen")));
    }
    if !is_error {
        // Tokamak says the charset of files, too.
        let kind =
            response.header("content-type").map(|kind| kind.split(';').next().unwrap_or_default());
        text.push_str(&format!("{kind:?}\n{}", response.text()));
    }
    text
}

/// Sends the same requests to both servers, one after the other; each with a word of what must be
/// in the response.
#[track_caller]
fn agree(name: &str, hook: Hook, requests: Vec<(Request, &str)>) {
    let servers = [Scripted::lighttpd(&[(name, hook)]), Scripted::tokamak(&[(name, hook)])];
    for (request, expected) in requests {
        let [theirs, ours] =
            [&servers[0], &servers[1]].map(|server| seen(&server.send(name, &request)));
        let target = &request.target;
        assert!(
            theirs.contains(expected),
            "lighttpd answers {target} with {theirs}\n{}",
            servers[0].log()
        );
        // The port is part of an address that a server makes up.
        assert_eq!(ours, theirs, "{target}\n{}", servers[1].log());
    }
}

#[test]
fn a_text_file_as_a_page() {
    agree(
        "pre",
        Hook::Physical,
        vec![(get("/notes.txt"), "<pre>plain\n</pre>"), (get("/nothing"), "<pre>")],
    );
}

#[test]
fn a_maintenance_page() {
    agree("maintenance", Hook::Physical, vec![(get("/page.html"), "Be right back.")]);
}

#[test]
fn a_film_from_its_middle() {
    let requests =
        vec![(get("/movie.bin?start=7"), "HEAD789"), (get("/page.html?x=1"), "<p>page</p>")];
    agree("seek", Hook::Physical, requests);
}

#[test]
fn a_random_file() {
    agree("random", Hook::Physical, vec![(get("/dir"), "PNG")]);
}

#[test]
fn an_injection_is_refused() {
    let requests =
        vec![(get("/page.html"), "<p>page</p>"), (get("/page.html?q=UNION%20SELECT"), "400")];
    agree("deny", Hook::RawUrl, requests);
}

#[test]
fn a_host_without_traffic() {
    agree("quota", Hook::RawUrl, vec![(get("/page.html"), "404")]);
}

#[test]
fn a_file_that_is_not_there_yet() {
    agree(
        "rewrite",
        Hook::Physical,
        vec![(get("/page.html"), "<p>page</p>"), (get("/new"), "dispatched")],
    );
}

#[test]
fn visitors_are_counted() {
    let from = |cookie: &str| get("/").header("Cookie", cookie);
    let requests = vec![
        (from("ada"), "ada: 1"),
        (from("bob"), "bob: 1"),
        (from("ada"), "ada: 2"),
        (get("/"), "nobody: 1"),
    ];
    agree("usertrack", Hook::RawUrl, requests);
    let server = Scripted::tokamak(&[("usertrack", Hook::RawUrl)]);
    server.send("usertrack", &get("/").header("Cookie", "ada"));
    server.log_line(&["(lua-print) ada was here"]);
}

#[test]
fn counters_of_the_server() {
    agree("counter", Hook::RawUrl, vec![(get("/"), "1"), (get("/"), "2")]);
}

#[test]
fn a_cache_that_decides() {
    let requests = vec![
        (get("/hit"), "<cached>"),
        (get("/miss"), "<p>page</p>"),
        (get("/page.html"), "<p>page</p>"),
    ];
    agree("cml", Hook::RawUrl, requests);
}

#[test]
fn the_encrypted_address() {
    agree("secure", Hook::RawUrl, vec![(get("/a?b=c"), "location: https://secure/a?b=c")]);
}

#[test]
fn clean_addresses() {
    let requests = vec![
        (get("/page.html"), "x-kind: file"),
        (get("/node/5?a=b"), "x-query: a=b&q=node/5"),
        (get("/dir"), "403"),
        (get("/caf%C3%A9"), "dispatched"),
    ];
    agree("clean", Hook::Physical, requests);
}

#[test]
fn a_firewall() {
    let requests = vec![
        (get("/page.html"), "<p>page</p>"),
        (get("/page.html?q=%3CSCRIPT%3E"), "403"),
        (get("/page.html").header("User-Agent", "BadBot 1.0"), "403"),
        (get("/page.html").header("Referer", "http://Casino.example/"), "410"),
    ];
    agree("filter", Hook::RawUrl, requests);
}

#[test]
fn a_signed_cookie() {
    let code = "5ae5ef4a0b4a7bbf9a4ef2e4a9e3a5c6b1d8c7f60f1e2d3c4b5a69788796a5b4";
    let requests = vec![
        (get("/inside"), "location: /login?to=page=/inside"),
        (get("/inside").header("Cookie", &format!("user=ada; code={code}")), "302"),
        (get("/inside").header("Cookie", SIGNED), "hello ada"),
    ];
    agree("signed", Hook::RawUrl, requests);
}

/// `ada`, signed with the script's secret by another program.
const SIGNED: &str =
    "user=ada; code=42b46fa075ab4e8426055055ab985908e87bc805b2a09f30f44f3e2e37b80161";

#[test]
fn a_password() {
    let requests = vec![
        (get("/"), "www-authenticate: Basic realm=\"folder\""),
        (get("/").basic_auth("ada:wrong"), "401"),
        (get("/").basic_auth("ada:lovelace"), "in"),
        (get("/").header("Authorization", "Basic ****"), "401"),
    ];
    agree("basic", Hook::RawUrl, requests);
}

#[test]
fn moved_addresses() {
    let requests = vec![
        (get("/old"), "location: /new"),
        (get("/older"), "?from=older"),
        (get("/page.html"), "<p>page</p>"),
    ];
    agree("redirect", Hook::RawUrl, requests);
}

#[test]
fn signed_links() {
    // md5 of "verysecret/page.html"
    let requests = vec![
        (get("/235c9ac97cd760b307693b9fade7d567/page.html"), "<p>page</p>"),
        (get("/00ff/page.html"), "403"),
        (get("/x"), "403"),
    ];
    agree("secret", Hook::RawUrl, requests);
}

#[test]
fn header_fields() {
    let request = get("/page.html").header("Accept", "text/html");
    agree("headers", Hook::RawUrl, vec![(request, "set-cookie: b=2")]);
}

#[test]
fn a_listing() {
    agree("listing", Hook::Physical, vec![(get("/dir"), "1 3 true\nindex 1 true")]);
}

#[test]
fn what_was_sent() {
    let body = |target: &str, length: usize| post(target, "text/plain", vec![b'x'; length]);
    agree("upload", Hook::RawUrl, vec![(body("/", 5), "5"), (body("/", 300_000), "300000")]);
    // What lighttpd 1.4.69 gives out as the body has the head in front, or is the name of a file.
    // A digest of so much takes its time where much else runs.
    let server = Scripted::tokamak_with("lua.time = \"20s\"", &[("upload", Hook::RawUrl)]);
    for (length, digest) in
        [(5, "FB0E22C79AC75679E9881E6BA183B354"), (3_000_000, "8E32E22642BDDC89698E25A4E9BF528B")]
    {
        assert_eq!(server.send("upload", &body("/?digest", length)).text(), digest);
    }
}

#[test]
fn the_head_before_it_is_sent() {
    agree("last", Hook::Response, vec![(get("/page.html"), "x-was: 200")]);
}

#[test]
fn how_long_files_may_be_kept() {
    let requests = vec![
        (get("/page.html"), "cache-control: max-age=60"),
        (get("/notes.txt"), "cache-control: max-age=3600"),
        (get("/movie.bin"), "cache-control: no-cache"),
    ];
    agree("expire", Hook::Response, requests);
}

#[test]
fn a_folder_for_each_host() {
    agree("evhost", Hook::Physical, vec![(get("/1"), "PNG"), (get("/nothing"), "404")]);
}

#[test]
fn hosts_of_a_table() {
    agree("vhostdb", Hook::Physical, vec![(get("/1"), "PNG"), (get("/page.html"), "404")]);
}

#[test]
fn what_is_set() {
    agree("setenv", Hook::RawUrl, vec![(get("/page.html"), "x-seen: by the server, test, nil")]);
}

#[test]
fn a_page_of_parts() {
    let expected = "plain\n<b>/parts.html</b>[an error occurred]";
    agree(
        "ssi",
        Hook::Physical,
        vec![(get("/parts.html?x"), expected), (get("/page.html"), "<p>page</p>")],
    );
}

#[test]
fn who_is_being_served() {
    let expected = "127.0.0.1 GET status /status?a 0 1 0 0 nil";
    agree("status", Hook::RawUrl, vec![(get("/status?a"), expected), (get("/"), "asked: 2")]);
}

#[test]
fn several_files_as_one() {
    let requests = vec![
        (get("/bundle?notes,notes"), "plain\n\nplain\n\n"),
        (get("/bundle?nothing"), "404"),
        (get("/bundle?../notes"), "403"),
        (get("/page.html"), "<p>page</p>"),
    ];
    agree("bundle", Hook::Physical, requests);
}

#[test]
fn another_address_for_a_folder() {
    let requests = vec![
        (get("/docs/1"), "PNG"),
        (get("/page.html~"), "403"),
        (get("/page.html"), "<p>page</p>"),
    ];
    agree("alias", Hook::Physical, requests);
}

/// Every row of the return contract.
#[test]
fn return_values() {
    let page = |query: &str| get(&format!("/page.html?{query}"));
    let requests = vec![
        (page("a=b"), "<p>page</p>"),
        (page("return=0"), "x-seen: yes"),
        (page("return=98"), "<p>page</p>"),
        (page("return=-5"), "<p>page</p>"),
        (page("return=200&body=hello"), "hello"),
        (page("return=200"), "content-length: 0"),
        (page("return=number&number=200"), "content-length: 0"),
        (page("return=204"), "204"),
        (page("return=404"), "404"),
        (page("return=418&body=teapot"), "418"),
        (page("return=103"), "interim 103"),
        (page("return=true"), "<p>page</p>"),
        (page("return=table"), "<p>page</p>"),
        (page("return=text"), "<p>page</p>"),
    ];
    agree("contract", Hook::RawUrl, requests);
}
