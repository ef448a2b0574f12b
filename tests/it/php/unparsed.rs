//! Requests that PHP cannot read in full. PHP says so in the log, and the application is asked all
//! the same: its error handler has nothing to do with what PHP does before a script.

use crate::harness::{Kind, Multipart, Request, Setup, form, get, on_every_server, post};

on_every_server! { application_is_asked }

/// A name, the request, and what PHP's warning contains.
type Case = (&'static str, Request, &'static str);

fn repeated(count: usize, one: impl Fn(usize) -> String, between: &str) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(between)
}

fn cases() -> Vec<Case> {
    let fields = repeated(60, |n| format!("f{n}=1"), "&");
    let cookies = repeated(60, |n| format!("c{n}=1"), "; ");
    let mut files = Multipart::default();
    for n in 0..6 {
        files = files.file(&format!("file{n}"), "a.txt", "text/plain", b"text");
    }
    let mut parts = Multipart::default();
    for n in 0..60 {
        parts = parts.field(&format!("f{n}"), "1");
    }
    let deep = format!("a{}=1", "[a]".repeat(80));
    let nested = "Input variable nesting level exceeded 64";
    let target = "/counts.php";
    vec![
        ("fields", form(target, &fields), "Input variables exceeded 50"),
        ("query", get(&format!("{target}?{fields}")), "Input variables exceeded 50"),
        ("cookies", get(target).header("Cookie", &cookies), "Input variables exceeded 50"),
        ("files", files.post(target), "Maximum number of allowable file uploads"),
        ("parts", parts.post(target), "body parts limit exceeded 55"),
        ("body", form(target, &format!("a={}", "x".repeat(150_000))), "exceeds the limit of"),
        ("boundary", post(target, "multipart/form-data", "x"), "Missing boundary"),
        ("boundary of nothing", post(target, "multipart/form-data; boundary", "x"), "boundary"),
        ("boundary, open", post(target, "multipart/form-data; boundary=\"x", "x"), "boundary"),
        ("nested field", form(target, &deep), nested),
        ("nested query", get(&format!("{target}?{deep}")), nested),
        ("nested cookie", get(target).header("Cookie", &deep), nested),
        (
            "nested part",
            Multipart::default().field(&deep[..deep.len() - 2], "1").post(target),
            nested,
        ),
    ]
}

fn application_is_asked(kind: Kind) {
    let mut setup = Setup::new(kind).workers(1).php_admin_value("post_max_size", "100K");
    for (name, value) in
        [("display_errors", "0"), ("max_input_vars", "50"), ("max_file_uploads", "5")]
    {
        setup = setup.php_value(name, value);
    }
    let server = if kind.has_loop() { setup.worker("worker_strict.php") } else { setup }.start();
    let mut wrong = Vec::new();
    for (name, request, warning) in cases() {
        let answer = server.send(&request);
        if answer.status() != 200 || !answer.text().contains(warning) {
            wrong.push(format!("{name}: {} {}", answer.status(), answer.text()));
        }
        server.log_line(&[warning, "in Unknown on line 0"]);
        let whole = server.send(&form("/counts.php?a=1", "b=1")).expect(200).json();
        assert_eq!(
            (&whole["get"], &whole["post"], &whole["said"].is_null()),
            (&1.into(), &1.into(), &true)
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
