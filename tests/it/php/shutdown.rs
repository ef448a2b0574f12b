//! The end of a request: what PHP does once the script is over, in php-fpm's order and words.

use crate::harness::{Kind, Multipart, Server, Setup, check, get, on_every_server, row};

/// Turns one function of a [`Kind`] into tests for servers on which each script is a program of its
/// own: none is included from a loop.
macro_rules! of_scripts {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            $crate::harness::of_kinds!(
                super::$name;
                classic: Classic, sealed: Sealed, fastcgi: Fastcgi, fpm: Fpm, fpm_sealed: FpmSealed, peer: Peer
            );
        }
    )* };
}
on_every_server! {
    attached_filters_are_closed_once, late_messages, invalid_session_handlers, compressed_output,
    upload_progress
}
of_scripts! { order_of_destruction, objects_reach_their_files, streams_of_the_boot, own_compression }

/// One worker, so that a request is over when the next one is served; in sealed mode with a boot.
fn scripts(kind: Kind) -> Setup {
    Setup::new(kind).workers(1).boot("shutdown/boot.php")
}

/// Global variables go first, the last one first, and take along what they alone hold. The rest
/// goes in the order in which it was made; after a fatal error nothing does.
fn order_of_destruction(kind: Kind) {
    let server = scripts(kind).start();
    let all = "last statement connection in-an-array held-twice static of-static circle ";
    let script = server.places.root().join("shutdown/order.php");
    let thrown = format!(
        "\nFatal error: Uncaught LogicException: in a destructor in {0}:25\nStack trace:\n\
         #0 [internal function]: class@anonymous->__destruct()\n#1 {{main}}\n  thrown in {0} on \
         line 25\n",
        script.display()
    );
    check(
        &server,
        vec![
            row("returns", get("/shutdown/order.php")).body(all),
            row("exits", get("/shutdown/order.php?exit")).body(all),
            row("fails", get("/shutdown/order.php?fatal")).contains("Fatal error: fatal in"),
            row("throws late", get("/shutdown/order.php?throw")).body(thrown),
            row("returns again", get("/shutdown/order.php")).body(all),
        ],
    );
    if matches!(kind, Kind::Sealed | Kind::FpmSealed) {
        assert!(
            !server.state_file("kept-destroyed").exists(),
            "the boot's object outlives requests"
        );
    }
}

/// An archive is written, a document flushed, a database's log merged: also by classes that inherit
/// from an extension's.
fn objects_reach_their_files(kind: Kind) {
    let mut setups = vec![scripts(kind)];
    if kind == Kind::Sealed {
        setups.extend([scripts(kind).bare(), Setup::new(kind).workers(1)]);
    }
    for setup in setups {
        let server = setup.start();
        assert_eq!(server.text("/shutdown/objects.php"), "made");
        let expected = r#"{"archive":"content","writer":"<element>content<\/element>","logs":[]}"#;
        assert_eq!(server.text("/shutdown/files.php"), expected);
    }
}

/// What a request writes to a stream that the boot has opened arrives, though filters, compression
/// and wrappers hold it back until the stream is closed or flushed.
fn streams_of_the_boot(kind: Kind) {
    let server = scripts(kind).start();
    let lines = ["first", "second", "third"];
    for (name, file) in
        [("filtered", "filtered"), ("wrapped", "wrapped"), ("compressed", "compressed.gz")]
    {
        for line in lines {
            let target = format!("/shutdown/streams.php?to={name}&line={line}");
            assert_eq!(server.text(&target), "written", "{name}");
        }
        let written = server.text(&format!("/shutdown/written.php?file={file}"));
        let encoded = if name == "filtered" {
            "Zmlyc3QKc2Vjb25kCg==dGhpcmQK"
        } else {
            "first\nsecond\nthird\n"
        };
        assert_eq!(written, encoded, "{name}");
    }
}

/// A filter that is attached to the end sees the end, once, whatever it opens then.
fn attached_filters_are_closed_once(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    for times in 1..=2 {
        assert_eq!(server.text("/shutdown/filter.php"), "filtered");
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
        if !matches!(kind, Kind::Worker | Kind::Async) {
            assert_eq!(server.state("closed"), "closed\nclosed\n".repeat(times));
        }
        assert_eq!((server.state("one").as_str(), server.state("two").as_str()), ("ONE", "TWO"));
    }
}

/// Functions and handlers that run when the script is over are in no file and on no line.
fn late_messages(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let script = server.places.root().join("shutdown/messages.php");
    let script = script.display();
    let nowhere = "in Unknown on line 0";
    let uncaught = |message: &str, line: usize, function: &str| {
        format!(
            "\nFatal error: Uncaught LogicException: {message} in {script}:{line}\nStack trace:\n\
             #0 [internal function]: {function}\n#1 {{main}}\n  thrown in {script} on line {line}\n"
        )
    };
    let ways = [
        ("internal", format!("body\nNotice: from nowhere {nowhere}\n second")),
        ("internal-fatal", format!("body\nFatal error: from nowhere {nowhere}\n")),
        ("exception", format!("body{}", uncaught("late", 7, "{closure}()"))),
        ("exit", "body exit".into()),
        ("again", "body second again".into()),
        ("buffer", "body second".into()),
        ("buffer-exception", String::new()),
    ];
    // Each twice: nothing of the first may come in the second.
    for (how, body) in ways.iter().flat_map(|way| [way, way]) {
        let said = server.text(&format!("/shutdown/messages.php?how={how}"));
        // PHP 8.4 says where a closure stands.
        let said = said.replace(&format!("{{closure:{script}:7}}"), "{closure}");
        assert_eq!(&said, body, "{how}");
    }
}

/// What a session handler may do wrong when the session is written, and what PHP says of it: in a
/// shutdown function, and later, in no function.
fn invalid_session_handlers(kind: Kind) {
    let server = Setup::new(kind).workers(1).start();
    let root = format!("{}/", server.places.root().display());
    let state = server.state_file("").display().to_string();
    let handler = "SessionHandlerInterface@anonymous";
    let uncaught = |what: &str, place: (&str, usize), frames: &[&str]| {
        let (file, line) = place;
        let frames = frames.iter().chain(&["{main}"]).enumerate();
        let frames: String = frames.map(|(number, frame)| format!("#{number} {frame}\n")).collect();
        let thrown = format!("  thrown in {file} on line {line}\n");
        format!("\nFatal error: Uncaught {what} in {file}:{line}\nStack trace:\n{frames}{thrown}")
    };
    let warning = |function: &str, what: &str| {
        format!("\nWarning: {function}: {what} in Unknown on line 0\n")
    };
    let nowhere = ("[no active file]", 0);
    let closing = "[internal function]: session_write_close()";
    let of_type = |found: &str| {
        format!(
            "TypeError: Session callback must have a return value of type bool, {found} returned"
        )
    };
    let method = |name: &str| format!("[internal function]: {handler}->{name}()");
    let failed = format!(
        "Failed to write session data using user defined save handler. \
         (session.save_path: {}, handler: {handler}::write)",
        state.trim_end_matches('/')
    );
    let again = warning(LATE, "Cannot call session save handler in a recursive manner");
    let fatal = "\nFatal error: in write in shutdown/session.php on line 21\n";
    const LATE: &str = "PHP Request Shutdown";

    let mut ways = Vec::new();
    for (how, what) in [
        ("null", of_type("null")),
        ("string", of_type("string")),
        ("int", of_type("int")),
        ("closure", "Exception: Serialization of 'Closure' is not allowed".into()),
    ] {
        ways.push((how, uncaught(&what, nowhere, &[closing]), uncaught(&what, nowhere, &[])));
    }
    for (how, name, line, more) in
        [("throw", "write", 19, again.as_str()), ("close-throws", "close", 8, "")]
    {
        let (what, place) = (format!("LogicException: in {name}"), ("shutdown/session.php", line));
        let late = uncaught(&what, place, &[&method(name)]);
        ways.push((
            how,
            uncaught(&what, place, &[&method(name), closing]),
            format!("{late}{more}"),
        ));
    }
    ways.push(("none", String::new(), String::new()));
    ways.push(("exit", " exit".into(), format!(" exit{again}")));
    ways.push((
        "fatal",
        format!("{fatal}{again}{}", warning(LATE, &failed)),
        format!("{fatal}{again}"),
    ));
    ways.push(("false", warning("session_write_close()", &failed), warning(LATE, &failed)));

    let body = |target: String| server.text(&target).replace(&root, "");
    for (how, early, late) in ways {
        assert_eq!(
            body(format!("/shutdown/session.php?how={how}")),
            format!("body{early}"),
            "{how}"
        );
        assert_eq!(
            body(format!("/shutdown/session.php?late&how={how}")),
            format!("body{late}"),
            "{how}, late"
        );
    }
    server.log_line(&[
        "Fatal error:  Uncaught TypeError: Session callback must have",
        "null returned",
    ]);
}

/// Whether the response is compressed by PHP; it is as long as `compressed.php` has it otherwise.
#[track_caller]
fn is_compressed(server: &Server, target: &str) -> bool {
    let response = server.send(&get(target).header("Accept-Encoding", "gzip")).expect(200);
    let compressed = response.header("Content-Encoding") == Some("gzip");
    assert_eq!(response.body.starts_with(&[0x1f, 0x8b]), compressed, "{response}");
    assert_eq!(response.body.len() < 200, compressed, "{response}");
    assert_eq!(server.text(target).len(), 2400, "for clients that ask for no compression");
    compressed
}

/// `zlib.output_compression` compresses each response, or the one whose script sets it.
fn compressed_output(kind: Kind) {
    let target = "/shutdown/compressed.php";
    let setup = || Setup::new(kind).workers(1).site_line("compression = false");
    let server = setup().php_value("zlib.output_compression", "4096").start();
    assert!(is_compressed(&server, target));
    assert!(!is_compressed(&server, &format!("{target}?set=0")));
    assert!(is_compressed(&server, target));
    let server = setup().start();
    assert!(!is_compressed(&server, target));
    assert!(is_compressed(&server, &format!("{target}?set=1")));
    assert!(!is_compressed(&server, target));
}

/// So does a `.user.ini`, for its directory.
fn own_compression(kind: Kind) {
    let server = scripts(kind).site_line("compression = false").start();
    assert!(is_compressed(&server, "/shutdown/compression/index.php"));
    assert!(!is_compressed(&server, "/shutdown/compressed.php"));
}

fn upload_progress(kind: Kind) {
    let setup = Setup::new(kind).workers(1).php_value("session.upload_progress.enabled", "1");
    let server = setup.php_value("session.upload_progress.cleanup", "0").start();
    assert_eq!(server.text("/shutdown/upload.php"), "null");
    let upload = Multipart::default()
        .field("PHP_SESSION_UPLOAD_PROGRESS", "mine")
        .file("file", "name.bin", "application/octet-stream", &[7; 100_000])
        .post("/shutdown/upload.php");
    server.send(&upload.header("Cookie", "PHPSESSID=upload")).expect(200);
    let seen: serde_json::Value =
        serde_json::from_str(&server.text("/shutdown/upload.php")).unwrap();
    assert_eq!(
        (&seen["done"], &seen["files"][0]["name"]),
        (&true.into(), &"name.bin".into()),
        "{seen}"
    );
    assert_eq!(seen["bytes_processed"], seen["content_length"]);
}
