//! Requests that came over FastCGI, as php-fpm serves them.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokamak_sys::control::{EXIT_TAINTED, FromZygote, Signal, Status};
use tokamak_sys::queue::record::Writer;
use tokamak_sys::queue::{Outcome, PoolNumber};

use crate::harness::*;

const ANY: &[(&str, &str)] = &[("mode", "classic"), ("fpm", "1")];

/// One classic worker of a pool with one script.
fn pool(code: &str, settings: &[(&str, &str)]) -> Site {
    let all = [ANY, settings].concat();
    Site::start(&[("a.php", code)], &all, 1)
}

/// Parameters as nginx sends them for `/a.php`; others take the place of those with their name, `-`
/// removes one.
fn parameters(site: &Site, others: &[(&str, &str)]) -> Vec<u8> {
    let root = site.root().to_str().unwrap();
    let script = format!("{root}/a.php");
    let mut all = vec![
        ("QUERY_STRING", "a=1"),
        ("REQUEST_METHOD", "GET"),
        ("CONTENT_TYPE", ""),
        ("CONTENT_LENGTH", ""),
        ("SCRIPT_NAME", "/a.php"),
        ("REQUEST_URI", "/a.php?a=1"),
        ("DOCUMENT_ROOT", root),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", "nginx/1.22.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("SERVER_NAME", "test.site"),
        ("SCRIPT_FILENAME", &script),
    ];
    let values: Vec<_> = others.iter().map(|(n, v)| (*n, v.replace("%root%", root))).collect();
    for (name, value) in &values {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some(known) => known.1 = value,
            None => all.push((name, value)),
        }
    }
    let mut writer = Writer::new();
    writer.begin_parameters();
    for (name, value) in all.iter().filter(|(_, value)| *value != "-") {
        writer.parameter(name.as_bytes(), value.as_bytes());
    }
    writer.bytes().to_vec()
}

pub fn ask(site: &mut Site, others: &[(&str, &str)]) -> Response {
    ask_with(site, others, b"")
}

pub fn ask_with(site: &mut Site, others: &[(&str, &str)], body: &[u8]) -> Response {
    let record = parameters(site, others);
    let handed = site.submit_record(&record, body);
    site.collect(handed, body, |_| false)
}

#[test]
fn server_variables_are_the_parameters_in_php_fpms_order() {
    let mut site = pool(
        "<?php foreach ($_SERVER as $k => $v) if (!is_array($v)) echo \"$k=$v\\n\";
         foreach (['REQUEST_METHOD', 'HTTP_X_A', 'POOL_VARIABLE', 'HTTP_PROXY', 'NONE'] as $n)
             echo \"getenv $n=\", var_export(getenv($n), true), \"\\n\";
         echo json_encode(getallheaders()), json_encode($_SERVER['odd_name'] ?? 0), count(getenv());",
        &[],
    );
    let sent = [
        ("HTTP_PROXY", "evil"),
        ("HTTP_X_A", "1"),
        ("odd.name[k]", "v"),
        ("", "nameless"),
        ("HTTP_AUTHORIZATION", "Basic dXNlcjpwYTpzcw=="),
        ("HTTP_COOKIE", "c=d"),
        ("7", "seven"),
    ];
    let response = ask(&mut site, &sent);
    let text = response.text();
    let root = site.root().display().to_string();
    let expected = format!(
        "7=seven\nHTTP_COOKIE=c=d\nHTTP_AUTHORIZATION=Basic dXNlcjpwYTpzcw==\nHTTP_X_A=1\n\
         SCRIPT_FILENAME={root}/a.php\nSERVER_NAME=test.site\nREMOTE_ADDR=127.0.0.1\nSERVER_SOFTWARE=nginx/1.22.1\n\
         GATEWAY_INTERFACE=CGI/1.1\nSERVER_PROTOCOL=HTTP/1.1\nDOCUMENT_ROOT={root}\nREQUEST_URI=/a.php?a=1\n\
         SCRIPT_NAME=/a.php\nCONTENT_LENGTH=\nCONTENT_TYPE=\nREQUEST_METHOD=GET\nQUERY_STRING=a=1\n\
         FCGI_ROLE=RESPONDER\nPHP_SELF=/a.php\nPHP_AUTH_USER=user\nPHP_AUTH_PW=pa:ss\nREQUEST_TIME_FLOAT="
    );
    assert!(text.contains(&expected), "{text}");
    for line in [
        "getenv REQUEST_METHOD='GET'",
        "getenv HTTP_X_A='1'",
        "getenv POOL_VARIABLE='from the pool'",
        "getenv HTTP_PROXY=false",
        "getenv NONE=false",
        r#"{"Cookie":"c=d","Authorization":"Basic dXNlcjpwYTpzcw==","X-A":"1","Content-Length":"","Content-Type":""}"#,
        r#"{"k":"v"}"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(text.contains("POOL_VARIABLE=from the pool\n") && !text.contains("evil"), "{text}");
    assert_eq!(response.header("Status"), "");
    assert_eq!(
        response.account.unwrap(),
        [format!("{root}/a.php"), "/a.php".into(), "user".into()]
    );
    assert_eq!((site.log(), response.complaints), (String::new(), String::new()));
}

#[test]
fn superglobals_and_bodies_come_as_over_http() {
    let mut site = pool(
        "<?php echo json_encode([$_GET, $_POST, $_COOKIE, file_get_contents('php://input')]);",
        &[],
    );
    let form = [
        ("REQUEST_METHOD", "POST"),
        ("CONTENT_TYPE", "application/x-www-form-urlencoded"),
        ("CONTENT_LENGTH", "3"),
        ("HTTP_COOKIE", "k=v; l=w"),
    ];
    let response = ask_with(&mut site, &form, b"p=1");
    assert_eq!(response.text(), r#"[{"a":"1"},{"p":"1"},{"k":"v","l":"w"},"p=1"]"#);
    // Nothing of it is left.
    assert_eq!(ask(&mut site, &[]).text(), r#"[{"a":"1"},[],[],""]"#);
    let large = vec![b'x'; 500_000];
    let response =
        ask_with(&mut site, &[("REQUEST_METHOD", "PUT"), ("CONTENT_LENGTH", "500000")], &large);
    assert!(response.text().ends_with(&format!("{}\"]", "x".repeat(500_000))));
}

#[test]
fn a_path_behind_the_script_is_its_path_info() {
    let mut site = pool(
        "<?php foreach (['PATH_INFO', 'SCRIPT_NAME', 'PHP_SELF', 'ORIG_PATH_INFO', \
            'PATH_TRANSLATED', 'SCRIPT_FILENAME'] as $k)
             echo \"$k=\", $_SERVER[$k] ?? '-', ' ', getenv($k) === ($_SERVER[$k] ?? false) ? '' \
             : 'getenv differs', \"\\n\";",
        &[],
    );
    let sent = [
        ("SCRIPT_FILENAME", "%root%/a.php/x"),
        ("SCRIPT_NAME", "/a.php/x"),
        ("PATH_INFO", "/a.php/x"),
    ];
    let text = ask(&mut site, &sent).text();
    let root = site.root().display().to_string();
    for line in ["PATH_INFO=/x \n", "SCRIPT_NAME=/a.php \n", "ORIG_PATH_INFO=/a.php/x \n"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("PHP_SELF=/a.php/x "), "{text}");
    assert!(
        text.contains(&format!("PATH_TRANSLATED={root}/x \nSCRIPT_FILENAME={root}/a.php \n")),
        "{text}"
    );
    // Again, now that the file is known.
    assert_eq!(ask(&mut site, &sent).text(), text);
}

#[test]
fn without_a_script_the_answer_says_why_and_so_does_the_log() {
    let mut site = pool("<?php echo 'run';", &[("limit_extensions", ".php .phar")]);
    fs::write(site.file("a.jpg"), "<?php echo 'hidden';").unwrap();
    fs::create_dir(site.file("dir.php")).unwrap();
    let root = site.root().display().to_string();
    let unknown = (404, "File not found.\n", "Primary script unknown".to_owned());
    let denied = |file: &str| {
        let why = format!(
            "Access to the script '{file}' has been denied (see security.limit_extensions)"
        );
        (403, "Access denied.\n", why)
    };
    let cases = [
        ("%root%/none.php", unknown.clone()),
        ("-", unknown.clone()),
        ("%root%/../%root%/a.php", unknown),
        ("%root%/a.jpg", denied(&format!("{root}/a.jpg"))),
        ("%root%/a.jpg/x.php", denied(&format!("{root}/a.jpg"))),
        ("", denied("")),
        (
            "%root%/dir.php",
            (
                404,
                "No input file specified.\n",
                format!(
                    "Unable to open primary script: {root}/dir.php (No such file or directory)"
                ),
            ),
        ),
    ];
    for (file, (status, body, complaint)) in cases {
        let response = ask(&mut site, &[("SCRIPT_FILENAME", file)]);
        assert_eq!((response.status, &response.text()[..]), (status, body), "{file}");
        assert_eq!(response.complaints, complaint, "{file}");
        let reason = if status == 404 { "404 Not Found" } else { "403 Forbidden" };
        assert_eq!(
            (&response.header("Status")[..], response.outcome),
            (reason, Some(Outcome::Complete))
        );
    }
    // No request of a web server.
    let response = ask(&mut site, &[("REQUEST_METHOD", "-")]);
    assert_eq!((response.status, response.text()), (200, String::new()));
    assert_eq!(ask(&mut site, &[]).text(), "run");
    assert_eq!(site.log(), "");
}

#[test]
fn the_head_is_the_one_that_php_fpm_writes() {
    let mut site = pool(
        "<?php parse_str($_SERVER['QUERY_STRING'], $q); foreach ($q['h'] ?? [] as $h) header($h);
         if (isset($q['s'])) http_response_code((int)$q['s']); if (isset($q['early'])) \
         headers_send(103); echo 'x';",
        &[],
    );
    let mut head = |query: &str| {
        let response = ask(&mut site, &[("QUERY_STRING", query)]);
        let headers = response.headers.iter().map(|(n, v)| format!("{n}: {v}"));
        assert!(response.interim.is_empty() && response.text() == "x");
        (
            response.status,
            headers.filter(|h| !h.starts_with("X-Powered-By")).collect::<Vec<_>>().join("|"),
        )
    };
    let html = "Content-type: text/html; charset=UTF-8";
    assert_eq!(head(""), (200, html.into()));
    assert_eq!(head("s=404"), (404, format!("Status: 404 Not Found|{html}")));
    assert_eq!(head("s=599"), (599, format!("Status: 599|{html}")));
    assert_eq!(head("h[]=HTTP/1.1+418+Tea"), (418, format!("Status: 418 Tea|{html}")));
    let (_, long) = head(&format!("h[]=HTTP/1.1+201+{}", "A".repeat(1014)));
    assert_eq!(long, format!("Status: 201 {}|{html}", "A".repeat(1011)));
    assert_eq!(head("h[]=Status:+503+Busy"), (503, format!("Status: 503 Busy|{html}")));
    assert_eq!(head("s=404&h[]=Status:+503+Busy"), (503, format!("Status: 503 Busy|{html}")));
    assert_eq!(head("s=304&h[]=ETag:+1"), (304, "Status: 304 Not Modified|ETag: 1".into()));
    assert_eq!(
        head("h[]=X-A:1&h[]=nonsense&h[]=X-Empty:"),
        (200, format!("X-A: 1|X-Empty: |{html}"))
    );
    assert_eq!(head("s=302&h[]=Location:+/x").0, 302);
    // An interim response has no place in CGI.
    assert_eq!(head("early"), (200, html.into()));
}

#[test]
fn a_status_line_of_its_own_is_sent_when_asked_for() {
    let settings =
        [("ini.cgi.rfc2616_headers", "1"), ("ini.cgi.nph", "1"), ("ini.expose_php", "0")];
    let mut site = pool("<?php header($_GET['h'] ?? 'X-A: 1');", &settings);
    let mut first = |query: &str| {
        let response = ask(&mut site, &[("QUERY_STRING", query)]);
        (response.status, response.headers[0].clone())
    };
    assert_eq!(first("h=HTTP/1.1+201+Made"), (201, (String::new(), "HTTP/1.1 201 Made".into())));
    assert_eq!(first(""), (200, ("Status".into(), "200 OK".into())));
}

#[test]
fn what_php_logs_goes_to_the_sender_of_the_request() {
    let code = "<?php echo $a; error_log('two lines\nof it'); fastcgi_finish_request(); \
        error_log('late');";
    let mut site = pool(code, &[("ini.log_errors", "1"), ("ini.display_errors", "0")]);
    let response = ask(&mut site, &[]);
    let file = site.file("a.php").display().to_string();
    let warning = format!("PHP message: PHP Warning:  Undefined variable $a in {file} on line 1");
    assert_eq!(response.complaints, format!("{warning}; PHP message: two lines\nof it"));
    // Again, with a new beginning.
    assert!(ask(&mut site, &[]).complaints.starts_with(&warning));
    assert_eq!(site.log(), "");

    let mut silent = pool("<?php error_log('x'); echo 1;", &[("ini.fastcgi.logging", "0")]);
    let response = ask(&mut silent, &[]);
    assert_eq!((response.text(), response.complaints), ("1".into(), String::new()));
}

#[test]
fn a_fatal_error_may_have_a_status_of_its_own() {
    let header = ("ini.fastcgi.error_header", "HTTP/1.1 550 PHP Error");
    let mut site = pool(
        "<?php if (isset($_GET['q'])) echo 'fine'; else none();",
        &[header, ("ini.display_errors", "0")],
    );
    let response = ask(&mut site, &[]);
    assert_eq!((response.status, &response.header("Status")[..]), (550, "550 PHP Error"));
    let response = ask(&mut site, &[("QUERY_STRING", "q=1")]);
    assert_eq!((response.status, response.text()), (200, "fine".into()));
}

/// Asked for so that opcache does not take the answer for constant.
const INI: &str = "echo ini_get($_GET['n'] ?? 'memory_limit'), ' ', ini_get('precision'), ' ', \
    var_export(ini_set('memory_limit', '77M'), true);";
const VALUES: &[(&str, &str)] = &[
    ("PHP_VALUE", "precision = 5\nerror_append_string=\"a;b\""),
    ("PHP_ADMIN_VALUE", "memory_limit=33M"),
];

#[test]
fn settings_that_come_with_a_request_are_its_own() {
    let mut site = pool(&format!("<?php {INI}"), &[("ini.memory_limit", "50M")]);
    for _ in 0..2 {
        assert_eq!(ask(&mut site, VALUES).text(), "33M 5 false");
        assert_eq!(ask(&mut site, &[]).text(), "50M 14 '50M'");
    }
    let response = ask(&mut site, &[("PHP_VALUE", "no.such=1\n[section]\nextension=x.so")]);
    assert_eq!(response.text(), "50M 14 '50M'");
    let says = |text: &str| assert!(response.complaints.contains(text), "{}", response.complaints);
    says("Passing INI directive through FastCGI: unable to set 'no.such'");
    says("; Passing INI directive through FastCGI: only classic entries are allowed");
    says("unable to set 'extension'");
}

/// In worker mode the boot may have changed the same settings; in sealed mode they go with the
/// memory.
#[test]
fn settings_that_come_with_a_request_are_its_own_in_every_mode() {
    let script = format!(
        "<?php ini_set('precision', '9'); while (tokamak_handle_request(function () {{ {INI} }}));"
    );
    for (mode, keep) in [("worker", ""), ("worker", "ini"), ("sealed", "")] {
        if mode == "sealed" && !can_be_sealed() {
            continue;
        }
        let settings = [
            ("mode", mode),
            ("fpm", "1"),
            ("script", "%root%/worker.php"),
            ("keep", keep),
            ("ini.memory_limit", "50M"),
        ];
        let files = [("worker.php", &script[..]), ("a.php", "")];
        let mut site = Site::start(&files, &settings, 1);
        for _ in 0..2 {
            assert_eq!(ask(&mut site, VALUES).text(), "33M 5 false", "{mode} {keep}");
        }
        assert_eq!(ask(&mut site, &[]).text(), "50M 9 '50M'", "{mode} {keep}");
    }
}

#[test]
fn a_request_may_disable_functions_for_itself() {
    let mut site = pool(
        "<?php echo strlen('ab'), class_exists('SplQueue') ? ' y' : ' n', ' ', \
            function_exists('phpinfo');",
        &[],
    );
    let disabled = ("PHP_ADMIN_VALUE", "disable_functions=phpinfo,phpversion");
    assert_eq!(ask(&mut site, &[disabled]).text(), "2 y ");
    assert_eq!(site.hear_exit(), Status::Code(EXIT_TAINTED));
    site.spawn();
    assert_eq!(ask(&mut site, &[]).text(), "2 y 1");
}

#[test]
fn user_ini_files_are_read_below_the_document_root() {
    let mut site = pool(
        "<?php echo ini_get('precision'), ini_get('memory_limit');",
        &[("admin.memory_limit", "40M")],
    );
    fs::write(site.file(".user.ini"), "precision=3\nmemory_limit=41M").unwrap();
    assert_eq!(ask(&mut site, &[("DOCUMENT_ROOT", "-")]).text(), "1440M");
    assert_eq!(ask(&mut site, &[]).text(), "340M");
}

#[test]
fn the_status_has_php_fpms_keys() {
    let mut site = pool("<?php echo json_encode(fpm_get_status());", &[]);
    let numbers = [
        (PoolNumber::Manager, 2),
        (PoolNumber::Started, 5),
        (PoolNumber::Accepted, 6),
        (PoolNumber::MaxActive, 7),
    ];
    for (number, value) in numbers {
        site.producer.segment().raise_pool_number(number, value);
    }
    let user = [("HTTP_AUTHORIZATION", "Basic dXNlcjpwYTpzcw==")];
    ask(&mut site, &user);
    let text = ask(&mut site, &user).text();
    let root = site.root().display().to_string().replace('/', "\\/");
    for part in [
        r#""pool":"test.site","process-manager":"dynamic","start-time":5,"start-since":"#,
        r#""accepted-conn":6,"listen-queue":0,"max-listen-queue":0,"listen-queue-len":0,"idle-processes":0,"active-processes":1,"#,
        r#""total-processes":1,"max-active-processes":7,"max-children-reached":0,"slow-requests":0,"procs":[{"pid":"#,
        r#""state":"Running","start-time":"#,
        r#""requests":2,"request-duration":"#,
        r#""request-method":"GET","request-uri":"\/a.php","query-string":"a=1","request-length":0,"user":"user","#,
        &format!(r#""script":"{root}\/a.php","last-request-cpu":0,"last-request-memory":0}}]"#),
    ] {
        assert!(text.replace("0.0", "0").contains(part), "{part} is missing in\n{text}");
    }
    let shown = site.producer.segment().shown_request(0);
    assert!(shown.last_took > 0 && shown.user == "user");
}

#[test]
fn worker_scripts_serve_fastcgi() {
    let script = "<?php $n = 0; while (tokamak_handle_request(function () use (&$n) {
        echo ++$n, $_SERVER['SCRIPT_FILENAME'], '|', $_SERVER['REQUEST_URI'], '|', $_SERVER['X'] \
        ?? '-', '|',
            count(getallheaders()); }));";
    for mode in ["worker", "sealed"].into_iter().filter(|mode| *mode == "worker" || can_be_sealed())
    {
        let settings = [("mode", mode), ("fpm", "1"), ("script", "%root%/worker.php")];
        let mut site = Site::start(&[("worker.php", script), ("index.php", "")], &settings, 1);
        let root = site.root().display().to_string();
        let file = ("SCRIPT_FILENAME", "%root%/index.php");
        let first =
            ask(&mut site, &[file, ("REQUEST_URI", "/one"), ("X", "y"), ("HTTP_HOST", "h")]);
        assert_eq!(first.text(), format!("1{root}/index.php|/one|y|3"), "{mode}");
        assert_eq!(first.account.unwrap()[0], format!("{root}/index.php"));
        let second = ask(&mut site, &[file, ("REQUEST_URI", "/two")]);
        let n = if mode == "worker" { 2 } else { 1 };
        assert_eq!(second.text(), format!("{n}{root}/index.php|/two|-|2"), "{mode}");
    }
}

#[test]
fn sealed_scripts_serve_fastcgi() {
    if !can_be_sealed() {
        return;
    }
    let files = [
        ("boot.php", "<?php $booted = 'booted';"),
        ("a.php", "<?php echo $booted, $_SERVER['PHP_SELF'];"),
    ];
    let settings = [
        ("mode", "sealed"),
        ("fpm", "1"),
        ("boot", "%root%/boot.php"),
        ("limit_extensions", ".php"),
    ];
    let mut site = Site::start(&files, &settings, 1);
    for _ in 0..3 {
        assert_eq!(ask(&mut site, &[]).text(), "booted/a.php");
        let response = ask(&mut site, &[("SCRIPT_FILENAME", "%root%/none.php")]);
        assert_eq!((response.status, response.text()), (404, "File not found.\n".into()));
        assert_eq!(response.complaints, "Primary script unknown");
    }
}

fn read_all(fds: Vec<OwnedFd>) -> Vec<String> {
    let read = |fd: OwnedFd| {
        let mut text = String::new();
        File::from(fd).read_to_string(&mut text).unwrap();
        text
    };
    fds.into_iter().map(read).collect()
}

#[test]
fn what_workers_print_is_caught_or_dropped_and_never_in_the_log() {
    let code =
        "<?php fwrite(fopen('php://stderr', 'w'), 'err'); file_put_contents('php://stdout', 'out');
        error_log('logged'); echo 'x';";
    let mut dropped = pool(code, &[]);
    assert_eq!(ask(&mut dropped, &[]).text(), "x");
    assert_eq!(dropped.log(), "");

    let settings =
        [ANY, &[("catch_output", "1"), ("max_requests", "2"), ("log_level", "notice")]].concat();
    for mode in
        ["classic", "sealed"].into_iter().filter(|mode| *mode == "classic" || can_be_sealed())
    {
        let settings: Vec<_> =
            settings.iter().map(|(k, v)| (*k, if *k == "mode" { mode } else { v })).collect();
        let mut site = Site::start(&[("a.php", code)], &settings, 0);
        let (_, output) = site.spawn_with_output();
        assert_eq!(output.len(), 2);
        let missing = ask(&mut site, &[("SCRIPT_FILENAME", "%root%/none.php")]);
        assert_eq!(missing.complaints, "Primary script unknown");
        let response = ask(&mut site, &[]);
        assert_eq!(
            (response.text(), &response.complaints[..]),
            ("x".into(), "PHP message: logged")
        );
        // The worker leaves, so both end. A line of level debug is not among them, and no mark of
        // the request that printed nothing.
        let error = "errNOTICE: PHP message: logged\n\0fscf\0";
        assert_eq!(read_all(output), ["out", error], "{mode}");
        assert_eq!(site.log(), "");
    }
}

#[test]
fn the_servers_own_lines_look_like_php_fpms() {
    let script = "<?php echo 'boot'; while (tokamak_handle_request(function () { echo 1; }));";
    let settings = [
        ("mode", "worker"),
        ("fpm", "1"),
        ("script", "%root%/worker.php"),
        ("ini.output_buffering", "0"),
    ];
    let site = Site::start(&[("worker.php", script)], &settings, 1);
    let line = site.wait_for_log("output of the worker script");
    assert!(
        line.starts_with('[')
            && line.ends_with("] NOTICE: [pool test.site] output of the worker script: boot"),
        "{line}"
    );
}

#[test]
fn an_aborted_request_is_noticed() {
    let code = "<?php ignore_user_abort((bool)($_GET['go'] ?? 0)); \
        register_shutdown_function(fn() =>
        file_put_contents(__DIR__ . '/status', connection_status() . (defined('ON') ? ' on' : '')));
        echo 'x'; flush(); for ($i = 0; $i < 500 && !connection_aborted(); $i++) { usleep(10000); \
        echo 'x'; flush(); }
        define('ON', 1);";
    let mut site = pool(code, &[("ini.output_buffering", "0")]);
    for (query, expected) in [("", "1"), ("go=1", "1 on")] {
        let record = parameters(&site, &[("QUERY_STRING", query)]);
        let handed = site.submit_record(&record, b"");
        let begun = site.collect(handed, b"", |response| !response.body.is_empty());
        assert_eq!(begun.outcome, None, "{}", begun.text());
        site.producer.abort(handed.0);
        site.collect(handed, b"", |_| false);
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while fs::read_to_string(site.file("status")).unwrap_or_default() != expected {
            assert!(
                std::time::Instant::now() < until,
                "{:?}",
                fs::read_to_string(site.file("status"))
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Needs root: only then may a zygote have another root directory and another user.
#[test]
fn workers_have_their_own_root_and_user() {
    // SAFETY: asks for a number.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let code = "<?php echo getcwd(), ' ', posix_getuid(), ':', posix_getgid(), ':', implode(',', \
        posix_getgroups()), ' ',
        __FILE__, ' ', json_encode(is_dir('/usr')), ' ', $_SERVER['SCRIPT_FILENAME'];";
    let files = [("a.php", code)];
    // In such a root there is no /proc, without which no image can be taken.
    let settings = [
        ("mode", "classic"),
        ("fpm", "1"),
        ("chroot", "%root%"),
        ("chdir", "/"),
        ("identity", "65534 65533 65533,65532"),
        ("limit_extensions", ".php"),
    ];
    let mut site = Site::start(&files, &settings, 0);
    std::os::unix::fs::chown(site.root(), Some(65534), None).unwrap();
    site.spawn();
    let inside = [("SCRIPT_FILENAME", "/a.php"), ("DOCUMENT_ROOT", "/")];
    for _ in 0..2 {
        let response = ask(&mut site, &inside);
        assert_eq!(
            response.text(),
            "/ 65534:65533:65532,65533 /a.php false /a.php",
            "{}",
            site.log()
        );
    }
    assert_eq!(ask(&mut site, &[]).status, 404);
}

fn show(what: &str, settings: &[&str]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tokamak-php"));
    let output = command.args(["--show", what]).args(settings).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn version_modules_and_info_are_those_of_php_fpm() {
    let text = show("version", &["no_ini=1"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("PHP 8.") && lines[0].contains(" (fpm-fcgi) (built: "), "{text}");
    assert!(
        lines[1] == "Copyright (c) The PHP Group" && lines[2].starts_with("Zend Engine v4."),
        "{text}"
    );
    assert!(!lines[0].contains("unknown") && lines[2].ends_with("Zend Technologies"), "{text}");
    let text = show("modules", &["no_ini=1"]);
    assert!(text.starts_with("[PHP Modules]\n") && text.contains("\nCore\n"), "{text}");
    assert!(text.contains("\n\n[Zend Modules]\n"), "{text}");
    let text = show("info", &["no_ini=1", "define.precision=7"]);
    assert!(text.starts_with("phpinfo()\nPHP Version => 8."), "{text}");
    assert!(
        text.contains("\nprecision => 7 => 7\n")
            && text.contains("\ncgi.fix_pathinfo => On => On\n")
    );
    assert!(text.contains("Loaded Configuration File => (none)"));
}

#[test]
fn php_ini_can_be_chosen_and_left_out() {
    let code = "<?php echo php_ini_loaded_file() ?: 'none', '|', ini_get('precision'), '|', \
        ini_get('user_agent');";
    let mut none = pool(
        code,
        &[
            ("no_ini", "1"),
            ("define.user_agent", "a b"),
            ("define.precision", "7"),
            ("ini.precision", "8"),
        ],
    );
    assert_eq!(ask(&mut none, &[]).text(), "none|8|a b");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("own.ini");
    fs::write(&file, "precision=5").unwrap();
    let mut chosen = pool(code, &[("ini_file", file.to_str().unwrap())]);
    assert_eq!(ask(&mut chosen, &[]).text(), format!("{}|5|", file.display()));
}

#[test]
fn a_slow_requests_backtrace_is_sent_for_the_slow_log() {
    let code = "<?php function slow() { file_put_contents(__DIR__ . '/begun', ''); \
        usleep(400000); }\n\
        array_map(function () {\nslow(); }, [1]); include __DIR__ . '/b.php';";
    let mut site = pool(code, &[]);
    fs::write(site.file("b.php"), "<?php\nslow();").unwrap();
    let record = parameters(&site, &[]);
    let handed = site.submit_record(&record, b"");
    let mut traces = Vec::new();
    for _ in 0..2 {
        while !site.file("begun").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::remove_file(site.file("begun")).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        site.kill(0, Signal::Backtrace(None));
        match site.hear() {
            FromZygote::Slow { index: 0, instance: 1, trace } => traces.push(trace),
            other => panic!("{other:?}"),
        }
    }
    site.collect(handed, b"", |_| false);
    let root = site.root().display().to_string();
    // Without the addresses.
    let seen = traces
        .iter()
        .flat_map(|trace| trace.lines())
        .map(|line| line.split_once('\t').map_or(line, |(_, rest)| rest))
        // PHP 8.4 says where a closure stands.
        .map(|line| line.replace(&format!("{{closure:{root}/a.php:2}}"), "{closure}"));
    let expected = [
        format!("{root}/a.php"),
        format!("usleep\t{root}/a.php\t1"),
        format!("slow\t{root}/a.php\t3"),
        format!("{{closure}}\t{root}/a.php\t2"),
        format!("array_map\t{root}/a.php\t2"),
        format!("{root}/a.php"),
        format!("usleep\t{root}/a.php\t1"),
        format!("slow\t{root}/b.php\t2"),
        format!("[INCLUDE_OR_EVAL]\t{root}/a.php\t3"),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert_eq!(site.log(), "");
}
