//! Classic mode: requests and responses as behind php-fpm.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tokamak_sys::queue::Outcome;

use crate::harness::*;

/// One classic worker with one script.
fn script(code: &str) -> Site {
    Site::classic(&[("a.php", code)])
}

fn text_of(code: &str) -> String {
    script(code).get("/a.php").text()
}

#[test]
fn an_echo_comes_back() {
    let mut site = script("<?php echo 'Hello ', $_GET['name'] ?? 'world';");
    for _ in 0..3 {
        let response = site.get("/a.php?name=you");
        assert_eq!((response.status, response.text().as_str()), (200, "Hello you"));
        assert_eq!(response.header("Content-type"), "text/html; charset=UTF-8");
        assert_eq!(response.outcome, Some(Outcome::Complete));
    }
    assert_eq!(site.log(), "");
}

#[test]
fn server_variables_are_those_of_php_fpm_behind_nginx() {
    let mut site = script(
        "<?php foreach ($_SERVER as $k => $v) echo \"$k=$v\\n\"; echo 'env=', \
            getenv('REQUEST_METHOD'), '|',
         getenv('HTTP_X_A'), '|', getenv('POOL_VARIABLE'), '|', count($_ENV), \"\\n\"; echo \
         'dir=', getcwd();",
    );
    let mut ask = get("/a.php?a=1&b=2")
        .header("X-A", "1")
        .header("x-a", "2")
        .header("Proxy", "evil")
        .header("X_Under", "1")
        .header("X-Empty", "")
        .header("Cookie", "a=1")
        .header("Cookie", "b=2")
        .header("Authorization", "Basic dXNlcjpwYTpzcw==");
    ask.path_info = "/foo/bar".to_owned();
    ask.scheme = "https";
    let text = site.ask(ask).text();
    let root = site.root().display().to_string();
    for line in [
        "REQUEST_METHOD=GET",
        "QUERY_STRING=a=1&b=2",
        "REQUEST_URI=/a.php/foo/bar?a=1&b=2",
        &format!("SCRIPT_FILENAME={root}/a.php"),
        "SCRIPT_NAME=/a.php",
        "PATH_INFO=/foo/bar",
        "PHP_SELF=/a.php/foo/bar",
        "DOCUMENT_URI=/a.php/foo/bar",
        &format!("DOCUMENT_ROOT={root}"),
        "SERVER_PROTOCOL=HTTP/1.1",
        "REQUEST_SCHEME=https",
        "HTTPS=on",
        "GATEWAY_INTERFACE=CGI/1.1",
        "SERVER_SOFTWARE=tokamak/0.1.0",
        "REMOTE_ADDR=127.0.0.1",
        "REMOTE_PORT=40000",
        "SERVER_ADDR=127.0.0.1",
        "SERVER_PORT=8080",
        "SERVER_NAME=test.site",
        "REDIRECT_STATUS=200",
        "FCGI_ROLE=RESPONDER",
        "CONTENT_TYPE=",
        "CONTENT_LENGTH=",
        "HTTP_HOST=test.site:8080",
        "HTTP_X_A=1, 2",
        "HTTP_X_EMPTY=",
        "HTTP_COOKIE=a=1; b=2",
        "PHP_AUTH_USER=user",
        "PHP_AUTH_PW=pa:ss",
        "REMOTE_USER=user",
        "POOL_VARIABLE=from the pool",
        "env=GET|1, 2|from the pool|0",
        &format!("dir={root}"),
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("REQUEST_TIME_FLOAT=1") && text.contains("\nREQUEST_TIME=1"));
    for never in ["HTTP_PROXY", "UNDER", "evil"] {
        assert!(!text.contains(never), "{never} in\n{text}");
    }
}

#[test]
fn cookies_post_and_request_superglobals() {
    let mut site = script(
        "<?php echo json_encode([$_GET, $_POST, $_COOKIE, $_REQUEST, $_SERVER['CONTENT_TYPE']]);",
    );
    let form = "application/x-www-form-urlencoded";
    let ask = post("/a.php?g=1", form, b"p=2&q[]=3&q[]=4")
        .header("Cookie", "c=5")
        .header("Cookie", "d=6");
    let expected = r#"[{"g":"1"},{"p":"2","q":["3","4"]},{"c":"5","d":"6"},{"g":"1","p":"2","q":["3","4"]},"application\/x-www-form-urlencoded"]"#;
    assert_eq!(site.ask(ask).text(), expected);
    assert_eq!(site.get("/a.php").text(), "[[],[],[],[],\"\"]");
}

#[test]
fn the_filter_extension_sees_server_variables() {
    let code = "<?php echo filter_input(INPUT_SERVER, 'REQUEST_METHOD'), ' ', \
        filter_input(INPUT_GET, 'x', FILTER_VALIDATE_INT),
                ' ', filter_has_var(INPUT_SERVER, 'HTTP_HOST') ? 'y' : 'n';";
    let mut site = script(code);
    assert_eq!(site.get("/a.php?x=7").text(), "GET 7 y");
}

#[test]
fn status_and_headers() {
    let mut site = Site::classic(&[
        (
            "code.php",
            "<?php http_response_code(404); header('X-A: 1'); header('X-A: 2', false); \
                header('X-B:3'); header('X-C: '); header_remove('X-D');",
        ),
        ("line.php", "<?php header('HTTP/1.1 418 Teapot'); echo 'x';"),
        ("short.php", "<?php header('HTTP/1.1 404'); echo 'x';"),
        ("status.php", "<?php header('Status: 410 Gone');"),
        ("not.php", "<?php header('Content-Type: a/b'); http_response_code(304);"),
        (
            "bad.php",
            "<?php @header(\"X-E: 1\\r\\nX-F: 2\"); @header(\"X-G: a\\0b\"); header('NoColon'); \
                header('Two Words: 1'); header('X-H: ok');",
        ),
        ("where.php", "<?php header('Location: /there');"),
        ("odd.php", "<?php http_response_code(42);"),
        (
            "list.php",
            "<?php header('X-A: 1'); header('Set-Cookie: a=1'); echo json_encode([headers_list(), \
                apache_response_headers(), http_response_code()]);",
        ),
    ]);
    let code = site.get("/code.php");
    assert_eq!(
        (code.status, code.header("X-A").as_str(), code.header("X-B").as_str()),
        (404, "1, 2", "3")
    );
    assert!(code.headers.iter().any(|(n, v)| n == "X-C" && v.is_empty()));
    assert_eq!(site.get("/line.php").status, 418);
    assert_eq!(site.get("/short.php").status, 404);
    let status = site.get("/status.php");
    assert_eq!((status.status, status.header("Status").as_str()), (410, ""));
    let not = site.get("/not.php");
    assert_eq!((not.status, not.header("Content-Type").as_str()), (304, ""));
    let bad = site.get("/bad.php");
    let names: Vec<_> = bad.headers.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["X-H", "Content-type"]);
    assert_eq!(site.get("/where.php").status, 302);
    assert_eq!(site.get("/odd.php").status, 500);
    assert_eq!(
        site.get("/list.php").text(),
        r#"[["X-A: 1","Set-Cookie: a=1"],{"X-A":"1","Set-Cookie":"a=1"},200]"#
    );
}

#[test]
fn request_headers_in_the_usual_spelling() {
    let mut site = script(
        "<?php echo json_encode([getallheaders(), apache_request_headers() == \
            frankenphp_request_headers()]);",
    );
    let ask = get("/a.php").header("x-some-thing", "1").header("ACCEPT", "*/*").header("X_Y", "no");
    assert_eq!(
        site.ask(ask).text(),
        r#"[{"Host":"test.site:8080","X-Some-Thing":"1","Accept":"*\/*"},true]"#
    );
}

#[test]
fn a_missing_script_is_404_and_an_unreadable_one_403() {
    let mut site = script("<?php echo 'x';");
    let missing = site.get("/nope.php");
    assert_eq!((missing.status, missing.text().as_str()), (404, "File not found.\n"));
    let line = site.wait_for_log("Primary script unknown");
    assert!(
        line.contains(" ERROR [test.site] ") && line.contains("request=\"GET /nope.php\""),
        "{line}"
    );
    fs::create_dir(site.file("dir.php")).unwrap();
    assert_eq!(site.get("/dir.php").status, 404);
    // The superuser may read everything.
    fs::set_permissions(site.file("a.php"), Permissions::from_mode(0o000)).unwrap();
    if fs::read(site.file("a.php")).is_err() {
        let unreadable = site.get("/a.php");
        assert_eq!((unreadable.status, unreadable.text().as_str()), (403, "Access denied.\n"));
    }
}

#[test]
fn a_deleted_script_is_404_soon() {
    let mut site = script("<?php echo 'x';");
    assert_eq!(site.get("/a.php").status, 200);
    fs::remove_file(site.file("a.php")).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(site.get("/a.php").status, 404);
}

#[test]
fn head_has_headers_and_the_begin_of_the_body_for_the_front() {
    let mut site = script("<?php header('X-A: 1'); echo str_repeat('a', (int)$_GET['n']);");
    for (length, passed_on) in [(4, 4), (100_000, 64 * 1024 + 1)] {
        let page = get(&format!("/a.php?n={length}"));
        let response = site.ask(Ask { method: "HEAD", ..page });
        let seen = (response.status, response.header("X-A"), response.body.len());
        assert_eq!(seen, (200, "1".to_owned(), passed_on));
    }
}

#[test]
fn flush_really_flushes() {
    let mut site = script(
        "<?php echo 'one'; ob_flush(); flush(); while (!file_exists(__DIR__ . '/go')) { \
            usleep(1000); clearstatcache(); } echo 'two';",
    );
    let ask = get("/a.php");
    let handed = site.submit(&ask);
    let first = site.collect(handed, &[], |r| !r.body.is_empty());
    assert_eq!((first.text().as_str(), first.outcome), ("one", None));
    fs::write(site.file("go"), "").unwrap();
    let rest = site.collect(handed, &[], |_| false);
    assert_eq!((rest.text().as_str(), rest.outcome), ("two", Some(Outcome::Complete)));
}

#[test]
fn output_buffers_nest_and_large_responses_stream() {
    let mut site = Site::classic(&[
        (
            "nest.php",
            "<?php ob_start(fn($b) => strtoupper($b)); echo 'a'; ob_start(); echo 'b'; \
                ob_end_flush(); echo 'c';",
        ),
        (
            "large.php",
            "<?php for ($i = 0; $i < 6 * 1024; $i++) echo str_repeat(chr(65 + $i % 26), 1024);",
        ),
    ]);
    assert_eq!(site.get("/nest.php").text(), "ABC");
    let large = site.get("/large.php");
    assert_eq!(large.body.len(), 6 << 20);
    assert!(
        large
            .body
            .chunks(1024)
            .enumerate()
            .all(|(n, c)| c.iter().all(|b| *b == 65 + (n % 26) as u8))
    );
}

#[test]
fn bodies_of_any_size_arrive() {
    let mut site = Site::classic(&[
        (
            "raw.php",
            "<?php $b = file_get_contents('php://input'); echo strlen($b), ' ', md5($b), ' ', \
                $_SERVER['CONTENT_LENGTH'];",
        ),
        ("skip.php", "<?php echo 'not read';"),
    ]);
    let body: Vec<u8> = (0..6_000_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
    let mut ask = post("/raw.php", "application/octet-stream", &body);
    let expected = format!("{} {} {}", body.len(), md5_of(&body), body.len());
    assert_eq!(site.ask(ask.clone()).text(), expected);
    ask.method = "PUT";
    assert_eq!(site.ask(ask.clone()).text(), expected);
    ask.target = "/skip.php".to_owned();
    assert_eq!(site.ask(ask).text(), "not read");
    assert_eq!(
        site.ask(post("/raw.php", "text/plain", b"x")).text(),
        "1 9dd4e461268c8034f5c8564e155c67a6 1"
    );
}

/// By PHP itself, which is not what is tested here.
fn md5_of(bytes: &[u8]) -> String {
    let mut site = script("<?php echo md5_file(__DIR__ . '/data');");
    fs::write(site.file("data"), bytes).unwrap();
    site.get("/a.php").text()
}

#[test]
fn uploads_are_files_and_are_deleted_afterwards() {
    let mut site = script(
        "<?php $f = $_FILES['f']; echo json_encode([$_POST, $f['name'], $f['size'], $f['error'],
         is_uploaded_file($f['tmp_name']), file_get_contents($f['tmp_name'])]); \
         file_put_contents(__DIR__ . '/name', $f['tmp_name']);",
    );
    let body = "--B\r\nContent-Disposition: form-data; \
        name=\"v\"\r\n\r\n1\r\n--B\r\nContent-Disposition: form-data; \
                name=\"f\"; filename=\"x.txt\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--B--\r\n";
    let response = site.ask(post("/a.php", "multipart/form-data; boundary=B", body.as_bytes()));
    assert_eq!(response.text(), r#"[{"v":"1"},"x.txt",5,0,true,"hello"]"#);
    let kept = fs::read_to_string(site.file("name")).unwrap();
    site.get("/none.php");
    assert!(!std::path::Path::new(&kept).exists());
}

#[test]
fn a_post_beyond_post_max_size_is_empty_and_logged() {
    let settings = [
        ("mode", "classic"),
        ("admin.post_max_size", "10"),
        ("ini.log_errors", "1"),
        ("ini.display_errors", "0"),
    ];
    let mut site = Site::start(&[("a.php", "<?php echo count($_POST);")], &settings, 1);
    let form = "application/x-www-form-urlencoded";
    assert_eq!(site.ask(post("/a.php", form, b"a=1")).text(), "1");
    assert_eq!(site.ask(post("/a.php", form, b"a=1&b=2&c=3")).text(), "0");
    site.wait_for_log("POST Content-Length of 11 bytes exceeds the limit of 10 bytes");
}

#[test]
fn finish_request_ends_the_response_and_the_script_goes_on() {
    let mut site = script(
        "<?php echo 'seen'; var_dump(PHP_SAPI); $r = [fastcgi_finish_request(), \
            fastcgi_finish_request()]; echo 'dropped';
         while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }
         $r[] = file_get_contents('php://input'); $r[] = connection_aborted(); $r[] = \
         $_SERVER['REQUEST_URI']; $r[] = $_GET['q'];
         file_put_contents(__DIR__ . '/result', json_encode($r));",
    );
    let response = site.ask(post("/a.php?q=7", "text/plain", b"the body"));
    assert_eq!(
        (response.text().as_str(), response.outcome),
        ("seenstring(8) \"fpm-fcgi\"\n", Some(Outcome::Complete))
    );
    fs::write(site.file("go"), "").unwrap();
    // The next request waits for the worker.
    assert_eq!(site.get("/none.php").status, 404);
    assert_eq!(
        fs::read_to_string(site.file("result")).unwrap(),
        r#"[true,false,"the body",0,"\/a.php?q=7","7"]"#
    );
}

#[test]
fn early_hints_come_before_the_response() {
    let mut site = script(
        "<?php header('Link: </s.css>; rel=preload'); echo headers_send(103); header('X-A: 1');",
    );
    let response = site.get("/a.php");
    assert_eq!(
        (response.status, response.header("X-A").as_str(), response.text().as_str()),
        (200, "1", "1")
    );
    assert_eq!(response.interim.len(), 1);
    assert_eq!(response.interim[0].0, 103);
    assert_eq!(response.interim[0].1[0], ("Link".to_owned(), "</s.css>; rel=preload".to_owned()));
}

#[test]
fn handle_request_outside_a_worker_script_throws() {
    let text = text_of(
        "<?php try { frankenphp_handle_request(fn() => 1); } catch (RuntimeException $e) { echo \
            get_class($e); }",
    );
    assert_eq!(text, "RuntimeException");
}

#[test]
fn php_binary_is_the_program_as_under_php_fpm() {
    let text = text_of("<?php echo is_executable(PHP_BINARY), ' ', constant('PHP_BINARY');");
    assert_eq!(text, format!("1 {}", env!("CARGO_BIN_EXE_tokamak-php")));
}

#[test]
fn fields_that_follow_the_body_are_checked() {
    let mut site = script(
        "<?php foreach ([['X-A', '1'], ['x b', ''], ['', ''], ['content-length', '3'],
            ['X-B', \"a\\r\\nb\"], ['X-B', \"a\\0\"], ['X-C', \"a\\tb \\xe4\"],
            ['X-D', str_repeat('d', 8191)]] as [$name, $value]) {
            try {
                echo json_encode(tokamak_trailer($name, $value)), \"\\n\";
            } catch (ValueError $e) {
                echo $e->getMessage(), \"\\n\";
            }
        }
        tokamak_finish_request();
        file_put_contents(__DIR__ . '/late', json_encode(tokamak_trailer('X-Late', '1')));",
    );
    let response = site.get("/a.php");
    let name = |what: &str| format!("tokamak_trailer(): Argument #1 ($name) must {what}");
    let value = "tokamak_trailer(): Argument #2 ($value) must not contain control characters";
    let none = name("be the name of a header field");
    let wanted = [
        "true",
        &none,
        &none,
        &name("not be a field that belongs in the head"),
        value,
        value,
        "true",
        "false",
    ];
    assert_eq!(response.text().lines().collect::<Vec<_>>(), wanted);
    assert_eq!(response.trailers, b"X-A: 1\r\nX-C: a\tb \xe4\r\n");
    assert_eq!(site.get("/none.php").status, 404);
    assert_eq!(fs::read_to_string(site.file("late")).unwrap(), "false");
}
