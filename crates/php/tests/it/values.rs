//! Settings that come with a request over FastCGI (`PHP_VALUE`, `PHP_ADMIN_VALUE`), in every mode.

use tokamak_sys::control::{EXIT_TAINTED, Status};
use tokamak_sys::queue::Outcome;

use crate::fastcgi::{ask, ask_with};
use crate::harness::*;

fn cannot_be_put_back(setting: &str) -> bool {
    setting == "opcache.protect_memory"
}

/// One worker in each mode that runs this code for every request; sealed with a worker script and
/// with a boot script.
fn sites(code: &str, more: &[(&str, &str)]) -> Vec<(&'static str, Site)> {
    let script = format!("<?php while (tokamak_handle_request(function () {{ {code} }}));");
    let front = format!("<?php {code}");
    let files = [
        ("a.php", front.as_str()),
        ("worker.php", script.as_str()),
        ("boot.php", "<?php $booted = 1;"),
    ];
    let modes = [
        ("classic", "classic", ("", "")),
        ("worker", "worker", ("script", "%root%/worker.php")),
        ("sealed, worker script", "sealed", ("script", "%root%/worker.php")),
        ("sealed, boot script", "sealed", ("boot", "%root%/boot.php")),
    ];
    let start =
        |(name, mode, script): (&'static str, &'static str, (&'static str, &'static str))| {
            let mut settings = vec![("mode", mode), ("fpm", "1")];
            settings.extend(Some(script).filter(|(key, _)| !key.is_empty()));
            settings.extend_from_slice(more);
            (name, Site::start(&files, &settings, 1))
        };
    modes
        .into_iter()
        .filter(|(_, mode, _)| *mode != "sealed" || can_be_sealed())
        .map(start)
        .collect()
}

/// PHP frees the value that `error_reporting()` replaces as memory of the request.
#[test]
fn a_script_may_change_what_came_with_its_request() {
    let code = "$before = error_reporting();
         error_reporting(0); error_reporting(5); ini_set('precision', '8');
         ini_set('error_reporting', 3); $changed = error_reporting() . ' ' . ini_get('precision');
         ini_restore('error_reporting'); ini_restore('precision');
         echo \"$before $changed \", error_reporting();
         echo ' ', ini_get('error_reporting'), ' ', ini_get('precision');";
    for (name, mut site) in sites(code, &[("ini.error_reporting", "7"), ("ini.precision", "11")]) {
        for _ in 0..3 {
            let sent = [("PHP_VALUE", "error_reporting=6\nprecision=10\nerror_reporting=2")];
            assert_eq!(ask(&mut site, &sent).text(), "2 3 8 2 2 10", "{name}");
            assert_eq!(ask(&mut site, &[]).text(), "7 3 8 7 7 11", "{name}");
        }
        assert_eq!(site.log(), "", "{name}");
    }
}

/// What the boot has set is no fall-back while a value of the request is there, and is there again
/// for the next one.
#[test]
fn ini_restore_falls_back_to_the_request_and_not_to_the_boot() {
    let code = "$got = ini_get('precision'); ini_set('precision', 8); ini_restore('precision');
         echo $got, ' ', ini_get('precision');";
    let script = format!(
        "<?php ini_set('precision', 9); while (tokamak_handle_request(function () {{ {code} }}));"
    );
    for mode in ["worker", "sealed"] {
        if mode == "sealed" && !can_be_sealed() {
            continue;
        }
        let settings = [
            ("mode", mode),
            ("fpm", "1"),
            ("script", "%root%/worker.php"),
            ("ini.precision", "11"),
        ];
        let mut site = Site::start(&[("worker.php", &script[..]), ("a.php", "")], &settings, 1);
        for _ in 0..2 {
            assert_eq!(ask(&mut site, &[("PHP_VALUE", "precision=10")]).text(), "10 10", "{mode}");
            assert_eq!(ask(&mut site, &[]).text(), "9 11", "{mode}");
        }
    }
}

/// The same as above, when the worker script ends with a fatal error in the middle of the request.
#[test]
fn a_worker_script_that_dies_takes_the_values_of_its_request_along() {
    let script = "<?php ini_set('precision', 9); while (tokamak_handle_request(function () {
             echo ini_get('precision'); ini_set('precision', 8);
             if ($_GET['a'] == 2) { ini_set('memory_limit', '4M'); str_repeat('x', 1 << 26); }
         }));";
    let settings = [
        ("mode", "worker"),
        ("fpm", "1"),
        ("script", "%root%/worker.php"),
        ("ini.precision", "11"),
        ("ini.output_buffering", "0"),
    ];
    let mut site = Site::start(&[("worker.php", script), ("a.php", "")], &settings, 1);
    for _ in 0..3 {
        let dies = [("PHP_VALUE", "precision=10\nmemory_limit=64M"), ("QUERY_STRING", "a=2")];
        let text = ask(&mut site, &dies).text();
        assert!(text.starts_with("10"), "{text} {}", site.log());
        assert_eq!(ask(&mut site, &[]).text(), "9");
    }
}

/// Of the request and not of the script, which PHP itself ends later.
#[test]
fn shutdown_functions_after_a_fatal_error_see_the_values_of_their_request() {
    let code = "register_shutdown_function(fn () => print('then ' . ini_get('precision')));
         ini_set('memory_limit', '4M'); str_repeat('x', 1 << 26);";
    let settings = [("ini.precision", "11"), ("ini.display_errors", "0")];
    for (name, mut site) in sites(code, &settings) {
        for _ in 0..2 {
            let response = ask(&mut site, &[("PHP_VALUE", "precision=10\nmemory_limit=64M")]);
            assert_eq!(response.text(), "then 10", "{name}: {}", site.log());
        }
    }
}

/// PHP refuses to change who reads a body while a script runs, as a worker script does.
#[test]
fn a_value_may_say_that_a_body_is_translated() {
    let code = "echo json_encode([$_POST['a'], mb_http_input('P')]);";
    let form = [
        ("REQUEST_METHOD", "POST"),
        ("CONTENT_TYPE", "application/x-www-form-urlencoded"),
        ("CONTENT_LENGTH", "5"),
    ];
    let translated = "mbstring.encoding_translation=1\ninput_encoding=latin1";
    for (name, mut site) in sites(code, &[]) {
        for _ in 0..2 {
            let sent = [&form[..], &[("PHP_VALUE", translated)]].concat();
            let text = ask_with(&mut site, &sent, b"a=%E4").text();
            assert_eq!(text, r#"["\u00e4","ISO-8859-1"]"#, "{name}");
            let text = ask_with(&mut site, &form, b"a=%41").text();
            assert_eq!(text, r#"["A",false]"#, "{name}");
        }
    }
}

/// What php-fpm has at each of these: it applies them before the request begins.
#[test]
fn values_are_there_before_the_request_begins() {
    let code = "mb_internal_encoding();
         echo json_encode([$_GET, $_POST, file_get_contents('php://input'),
             session_status(), session_id() === '', date_default_timezone_get(),
             opcache_get_status(false)['opcache_enabled'], ob_get_level(), \
             mb_substitute_character(), mb_http_output(), mb_language(), \
             ini_get('mbstring.language')]);";
    let form = [
        ("REQUEST_METHOD", "POST"),
        ("CONTENT_TYPE", "application/x-www-form-urlencoded"),
        ("CONTENT_LENGTH", "4"),
        ("QUERY_STRING", "a=<b>"),
    ];
    let plain =
        r#"[{"a":"<b>"},{"p":"<q"},"p=<q",1,true,"UTC",true,0,63,"UTF-8","neutral","neutral"]"#;
    let changed = [
        ("post_max_size=3", r#"{"a":"<b>"},[],"#),
        ("enable_post_data_reading=0", r#"{"a":"<b>"},[],"p=<q""#),
        ("session.auto_start=1\nsession.use_cookies=0", r#""p=<q",2,false,"#),
        ("session.save_handler=other", r#""p=<q",0,true,"#),
        ("session.serialize_handler=other", r#""p=<q",0,true,"#),
        ("filter.default=special_chars", r#"[{"a":"&#60;b&#62;"},{"p":"&#60;q"},"#),
        ("date.timezone=Europe/Riga", r#"true,"Europe\/Riga",true,0"#),
        ("opcache.enable=0", r#""UTC",false,0"#),
        ("output_buffering=1", r#""UTC",true,1"#),
        ("mbstring.substitute_character=long", r#"true,0,"long","#),
        ("mbstring.language=Japanese", r#""Japanese","Japanese"]"#),
        ("output_handler=ob_gzhandler", r#""UTC",true,1"#),
    ];
    let settings = [
        ("ini.date.timezone", "UTC"),
        ("ini.session.save_path", "%root%"),
        ("ini.output_buffering", "0"),
    ];
    for (name, mut site) in sites(code, &settings) {
        for (value, part) in changed {
            if (name, value) == ("worker", "opcache.enable=0") {
                continue; // a worker script refuses it
            }
            let sent = [&form[..], &[("PHP_VALUE", value)]].concat();
            let response = ask_with(&mut site, &sent, b"p=<q");
            assert!(
                response.text().contains(part),
                "{name}, {value}: {response:?}\n{}",
                site.log()
            );
            assert_eq!(ask_with(&mut site, &form, b"p=<q").text(), plain, "{name}, after {value}");
        }
    }
}

/// zlib's handler keeps its state in the extension, which hears of each request's start and end.
#[test]
fn a_request_may_name_the_output_handler() {
    for (name, mut site) in sites("echo 'hi';", &[("ini.output_buffering", "0")]) {
        for value in ["output_handler=ob_gzhandler", "zlib.output_compression=1"] {
            let sent = [("PHP_VALUE", value), ("HTTP_ACCEPT_ENCODING", "gzip")];
            for _ in 0..2 {
                let response = ask(&mut site, &sent);
                let encoding = response.header("Content-Encoding");
                assert_eq!(encoding, "gzip", "{name}, {value}: {response:?}");
                assert!(response.body.starts_with(b"\x1f\x8b"), "{name}, {value}: {response:?}");
            }
            let response = ask(&mut site, &[("HTTP_ACCEPT_ENCODING", "gzip")]);
            assert_eq!(
                (response.text(), response.header("Content-Encoding")),
                ("hi".into(), String::new()),
                "{name}"
            );
        }
    }
}

/// Where a script is looked for. It is read while PHP begins the request, in sealed mode as
/// elsewhere.
#[test]
fn user_ini_is_there_before_the_request_begins() {
    let code = "echo session_status(), ob_get_level(), ini_get($_GET['b'] ?? 'precision');";
    let settings = [("ini.session.save_path", "%root%"), ("ini.output_buffering", "0")];
    for (name, mut site) in sites(code, &settings) {
        if name.contains("worker") {
            continue; // nothing is looked for
        }
        let own = "session.auto_start=1\noutput_buffering=1\nprecision=3\nerror_reporting=5";
        std::fs::write(site.file(".user.ini"), own).unwrap();
        for _ in 0..3 {
            assert_eq!(ask(&mut site, &[]).text(), "213", "{name}");
            let sent = [("PHP_VALUE", "precision=4\nsession.auto_start=0")];
            assert_eq!(ask(&mut site, &sent).text(), "213", "{name}");
            let locked = [("PHP_ADMIN_VALUE", "precision=4\nsession.auto_start=0")];
            assert_eq!(ask(&mut site, &locked).text(), "114", "{name}");
        }
    }
}

/// Each setting there is, switched to something else for a request: the requests that follow find
/// what they always did, and none of them crashes. What cannot be put back replaces the worker.
#[test]
fn every_setting_can_come_with_a_request() {
    let code = "$all = ini_get_all(null, false);
         if (isset($_SERVER['LIST'])) {
             foreach ($all as $name => $value) { echo \"$name=$value\\n\"; }
             return;
         }
         class_exists('Late')
             || eval('class Late { function f() { return str_repeat(chr(97), 3); } }');
         include __DIR__ . '/b.php';
         echo (new Late)->f(), b(), preg_match('/a+/', 'caat'), md5(serialize($all));";
    let function = "<?php if (!function_exists('b')) { function b() { return 'b'; } }";
    for (name, mut site) in sites(code, &[]) {
        std::fs::write(site.file("b.php"), function).unwrap();
        let list = ask(&mut site, &[("LIST", "1")]).text();
        let settings: Vec<_> = list
            .lines()
            .map(|line| line.split_once('=').unwrap())
            .filter(|(setting, _)| !setting.starts_with("disable_"))
            .collect();
        assert!(settings.len() > 150, "{name}: {list}");
        let usual = ask(&mut site, &[]).text();
        for (setting, now) in settings {
            let other = if now == "1" { "0" } else { "1" };
            let values = [other, "user"];
            // PHP ends a request for the handler "user" that a script has not set.
            for value in &values[..if setting == "session.save_handler" { 2 } else { 1 }] {
                let sent = format!("{setting}={value}");
                let response = ask(&mut site, &[("PHP_VALUE", &sent)]);
                assert_eq!(
                    response.outcome,
                    Some(Outcome::Complete),
                    "{name}, {sent}: {}",
                    site.log()
                );
                if cannot_be_put_back(setting) && name != "worker" {
                    assert_eq!(site.hear_exit(), Status::Code(EXIT_TAINTED), "{name}, {sent}");
                    site.spawn();
                }
                let response = ask(&mut site, &[]);
                assert_eq!(response.text(), usual, "{name}, after {sent}: {}", site.log());
            }
        }
    }
}

/// A worker script refuses it: it is not replaced for one request's sake.
#[test]
fn what_cannot_be_put_back_replaces_the_worker() {
    // opcache stores what it takes for constant.
    for (name, mut site) in sites("echo ini_get($_GET['b'] ?? 'opcache.protect_memory');", &[]) {
        let protect = [("PHP_ADMIN_VALUE", "opcache.protect_memory=1")];
        if name == "worker" {
            let response = ask(&mut site, &protect);
            assert_eq!(response.text(), "0");
            assert!(
                response.complaints.contains("unable to set 'opcache.protect_memory'"),
                "{response:?}"
            );
            continue;
        }
        assert_eq!(ask(&mut site, &protect).text(), "1", "{name}");
        assert_eq!(site.hear_exit(), Status::Code(EXIT_TAINTED), "{name}");
        site.spawn();
        assert_eq!(ask(&mut site, &[]).text(), "0", "{name}");
    }
}

/// A path that was found before would not be looked at again. php-fpm then does without that cache
/// for all later requests, too.
#[test]
fn paths_are_not_remembered_while_open_basedir_is_set_and_are_again_afterwards() {
    let code = "clearstatcache(true); realpath(__FILE__);
         echo realpath_cache_size() > 0 ? 'kept' : 'not kept';";
    for (name, mut site) in sites(code, &[]) {
        let value = format!("open_basedir={}", site.root().display());
        for _ in 0..3 {
            let parameters = [("PHP_ADMIN_VALUE", value.as_str())];
            assert_eq!(ask(&mut site, &parameters).text(), "not kept", "{name}");
            assert_eq!(ask(&mut site, &[]).text(), "kept", "{name}");
        }
    }
}

/// What settings say of files, and the session that starts by itself: relative paths begin where
/// the worker does, as in php-fpm, and not at whatever script was run before.
#[test]
fn relative_paths_of_settings_begin_where_the_worker_began() {
    let files = [("a.php", "<?php echo session_id(), get_browser('x')->browser ?? '';")];
    let auto_start = ("ini.session.auto_start", "1");
    let settings = [("mode", "classic"), ("fpm", "1"), ("chdir", "%root%")];
    for (more, value) in [(None, "session.auto_start=1\n"), (Some(auto_start), "")] {
        let save_path = ("ini.session.save_path", "./");
        let all: Vec<_> = settings.into_iter().chain(more).chain([save_path]).collect();
        let mut site = Site::start(&files, &all, 1);
        std::fs::create_dir(site.file("other")).unwrap();
        std::fs::write(site.file("other/b.php"), "<?php echo getcwd();").unwrap();
        std::fs::write(site.file("browsers"), "[*]\nbrowser=any\n").unwrap();
        let other = site.file("other/b.php").display().to_string();
        for id in ["first", "second"] {
            let elsewhere = ask(&mut site, &[("SCRIPT_FILENAME", other.as_str())]).text();
            assert!(elsewhere.ends_with(&site.file("other").display().to_string()), "{elsewhere}");
            let cookie = format!("PHPSESSID={id}");
            let mut sent = vec![("HTTP_COOKIE", cookie.as_str())];
            let value = format!("{value}browscap=./browsers");
            sent.extend(Some(("PHP_VALUE", value.as_str())).filter(|_| more.is_none()));
            let text = ask(&mut site, &sent).text();
            assert_eq!(text.strip_suffix("any").is_some(), more.is_none(), "{text} {}", site.log());
            assert!(text.starts_with(id), "{text}");
            assert!(site.file(&format!("sess_{id}")).exists(), "{id}: {}", site.log());
        }
    }
}
