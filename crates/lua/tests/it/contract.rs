//! What a return value means, row by row, and what becomes of errors.

use tokamak_lua::{Limits, Outcome, ScriptError, Stage};

use crate::harness::{Site, request, run};

#[test]
fn nothing_and_small_numbers_go_on_with_headers_set() {
    for returned in ["", "return", "return nil", "return 0", "return 1", "return 98", "return -5"] {
        let (outcome, memory) = run(&format!("lighty.header['X-Seen'] = 'yes' {returned}"));
        assert_eq!(outcome, Outcome::GoOn, "{returned}");
        assert_eq!(memory.header("x-seen"), ["yes"], "{returned}");
        assert!(memory.log.is_empty(), "{:?}", memory.log);
    }
}

#[test]
fn ninety_nine_restarts_with_the_request_as_it_is_now() {
    let (outcome, memory) =
        run("lighty.env['request.uri'] = '/other' return lighty.RESTART_REQUEST");
    assert_eq!(outcome, Outcome::Restart);
    assert_eq!(memory.attribute("request.uri").as_deref(), Some("/other"));
    assert_eq!(run("return 99").0, Outcome::Restart);
}

#[test]
fn a_hundred_and_some_is_interim() {
    let (outcome, memory) =
        run("lighty.r.resp_header['Link'] = '</a.css>; rel=preload' return 103");
    assert_eq!(outcome, Outcome::Interim(103));
    assert_eq!(memory.header("link").len(), 1);
}

#[test]
fn a_status_answers() {
    for (returned, status) in
        [("200", 200), ("'200'", 200), ("200.0", 200), ("404", 404), ("999", 999)]
    {
        assert_eq!(run(&format!("return {returned}")).0, Outcome::Answer(status), "{returned}");
    }
}

#[test]
fn what_is_no_whole_number_is_logged_and_goes_on_without_headers() {
    let nonsense = [
        ("true", "boolean"),
        ("false", "boolean"),
        ("{}", "table"),
        ("'text'", "string"),
        ("print", "function"),
    ];
    for (returned, kind) in
        nonsense.into_iter().chain([("200.5", "number"), ("0/0", "number"), ("1e300", "number")])
    {
        let (outcome, memory) = run(&format!("lighty.header['X-Seen'] = 'yes' return {returned}"));
        assert_eq!(outcome, Outcome::GoOn, "{returned}");
        assert_eq!(memory.log.len(), 1, "{returned}");
        let (script, text) = memory.log[0].rsplit_once(".lua: ").unwrap();
        assert!(script.starts_with("lua: /"), "{script}");
        assert_eq!(text, format!("unexpected non-integer return type: {kind}"), "{returned}");
        assert!(memory.header("x-seen").is_empty(), "{returned}");
    }
}

#[test]
fn an_error_is_logged_with_place_and_traceback() {
    let (outcome, memory) = run("local function deep()\n  error('broken')\nend\ndeep()");
    assert_eq!(outcome, Outcome::Failed(ScriptError::Error));
    let log = memory.log.join("\n");
    assert!(log.contains("test.lua:2: broken"), "{log}");
    assert!(log.contains("stack traceback") && log.contains("test.lua:4"), "{log}");
    for (script, said) in [
        ("error({})", "error object is a table"),
        ("error(nil)", "error object is a nil"),
        (
            "error(setmetatable({}, {__tostring = function() error('twice') end}))",
            "error object is a table",
        ),
        ("local a = nil + 1", "arithmetic on a nil value"),
        ("lighty.c.urlenc({})", "error converting"),
        ("return coroutine.yield(5)", "yield from outside a coroutine"),
    ] {
        let (outcome, memory) = run(script);
        assert_eq!(outcome, Outcome::Failed(ScriptError::Error), "{script}");
        assert!(memory.log.join("\n").contains(said), "{script}: {:?}", memory.log);
    }
    assert_eq!(ScriptError::Error.status(), 500);
    assert_eq!(ScriptError::TooLong.status(), 503);
}

#[test]
fn the_body_is_the_content_or_what_was_set() {
    let body = |script: &str| run(script).1.text();
    assert_eq!(body("lighty.content = { 'a', 1, 'b' } return 200"), "a1b");
    assert_eq!(
        body("lighty.r.resp_body.set('x') lighty.r.resp_body.add({'y', 2}) return 200"),
        "xy2"
    );
    assert_eq!(body("lighty.content = { 'a', true, 'b' } return 200"), "a");
    assert_eq!(body("lighty.content = { 'a', nil, 'b' } return 200"), "a");
    assert_eq!(body("lighty.content = 'no table' return 200"), "");
    assert_eq!(body("lighty.content = { 'unsent' } return 0"), "");
    assert_eq!(body("lighty.r.resp_body.set('kept') return 200"), "kept");
    // Looking at the content makes one, which then is the body.
    assert_eq!(body("lighty.r.resp_body.set('gone') local _ = lighty.content return 200"), "");
}

#[test]
fn parts_of_files() {
    let site = Site::new(Limits::default(), &[("content.lua", CONTENT), ("body.lua", BODY)]);
    std::fs::write(site.folder.path().join("file"), "0123456789").expect("a writable folder");
    let part = |script: &str, piece: &str| {
        let mut memory = request();
        let folder = site.folder.path().to_string_lossy().into_owned();
        memory.request.push((
            "x-piece".into(),
            piece.replace("FILE", &format!("filename='{folder}/file'")).into(),
        ));
        let (outcome, memory) = site.ask_at(Stage::Physical, script, memory);
        assert_eq!(outcome, Outcome::Answer(200), "{:?}", memory.log);
        (memory.text(), memory.log.join("\n"))
    };
    let content = |piece: &str| part("content.lua", piece);
    assert_eq!(content("FILE").0, "<0123456789>");
    assert_eq!(content("FILE, offset=3").0, "<3456789>");
    // The length of the older interface is where the part ends.
    assert_eq!(content("FILE, offset=3, length=5").0, "<34>");
    assert_eq!(content("FILE, offset='3', length='5'").0, "<34>");
    assert_eq!(content("FILE, length=4").0, "<0123>");
    assert_eq!(content("FILE, offset=3, length=3").0, "<>");
    assert_eq!(content("FILE, offset=8, length=100").0, "<89>");
    assert_eq!(content("FILE, offset=20").0, "<>");
    let (text, log) = content("FILE, offset=5, length=3");
    assert_eq!(text, "<");
    assert!(log.contains("offset > length"), "{log}");
    let (text, log) = content("FILE, offset=-1");
    assert_eq!(text, "<");
    assert!(log.contains("negative"), "{log}");
    let (text, log) = content("FILE, offset='x'");
    assert_eq!(text, "<0123456789>");
    assert!(log.contains("must be an integer"), "{log}");
    let body = |piece: &str| part("body.lua", piece);
    assert_eq!(body("FILE, offset=3, length=5").0, "<34567>");
    assert_eq!(body("FILE, offset=-3").0, "<789>");
    assert_eq!(body("FILE, offset=3, length=-1").0, "<3456789>");
    for missing in
        ["filename='/nonexistent/file'", "filename='/dev/null'", "filename=''", "filename=5", ""]
    {
        for script in ["content.lua", "body.lua"] {
            let (text, log) = part(script, missing);
            assert_eq!(text, "<", "{missing}");
            assert!(
                log.contains("error opening file") || log.contains("must be a string"),
                "{log}"
            );
        }
    }
}

const CONTENT: &str = r#"
local piece = loadstring("return {" .. lighty.request["X-Piece"] .. "}")()
lighty.content = { "<", piece, ">" }
return 200
"#;

const BODY: &str = r#"
local piece = loadstring("return {" .. lighty.request["X-Piece"] .. "}")()
lighty.r.resp_body.set({ "<", piece, ">" })
return 200
"#;

#[test]
fn nothing_undoes_a_response_that_is_decided() {
    let site = Site::new(
        Limits::default(),
        &[
            ("error.lua", "lighty.r.resp_header['X'] = '1' error('late')"),
            ("interim.lua", "lighty.header['X'] = '1' return 103"),
            ("restart.lua", "return 99"),
            ("status.lua", "lighty.content = {'changed'} return 404"),
            ("syntax.lua", "return return"),
        ],
    );
    for name in ["error.lua", "interim.lua", "restart.lua", "syntax.lua"] {
        assert_eq!(site.ask_at(Stage::Response, name, request()).0, Outcome::GoOn, "{name}");
    }
    let (outcome, memory) = site.ask_at(Stage::Response, "status.lua", request());
    assert_eq!((outcome, memory.text().as_str()), (Outcome::Answer(404), "changed"));
}
