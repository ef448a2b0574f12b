use proptest::prelude::*;
use tokamak_sys::queue::record::Writer;

use super::*;

const FILE: &[u8] = b"/srv/a.php";

/// A disk with one script in one directory.
fn disk(path: &[u8]) -> Kind {
    match path {
        FILE => Kind::File,
        b"/srv" | b"/srv/" | b"/" => Kind::Other,
        _ => Kind::Nothing,
    }
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let mut writer = Writer::new();
    writer.begin_parameters();
    for (name, value) in pairs {
        writer.parameter(name.as_bytes(), value.as_bytes());
    }
    let mut env = Environment::new();
    assert!(env.take(writer.bytes()));
    env
}

fn fixing() -> Rules {
    Rules { fix_pathinfo: true, extensions: vec![b".php".to_vec()], ..Rules::default() }
}

/// Resolves a GET request, expects the script to be run, and checks its URI and parameters; one
/// with the value `-` is none.
fn check(rules: &Rules, sent: &[(&str, &str)], uri: &str, params: &[(&str, &str)]) {
    let mut all = vec![("REQUEST_METHOD", "GET")];
    all.extend_from_slice(sent);
    let mut env = environment(&all);
    let found = resolve(&mut env, rules, disk);
    assert_eq!(found.verdict, Verdict::Run, "{sent:?}");
    assert_eq!(found.script.map(|at| env.text(at)), Some(FILE), "{sent:?}");
    assert_eq!(
        found.uri.map_or("-".into(), |at| String::from_utf8_lossy(env.text(at))),
        uri,
        "{sent:?}"
    );
    for (name, expected) in params {
        let value =
            env.get(name.as_bytes()).map_or("-".into(), |at| String::from_utf8_lossy(env.text(at)));
        assert_eq!(value, *expected, "{name} of {sent:?}");
    }
}

#[test]
fn a_script_that_exists_is_taken_as_it_was_sent() {
    let sent =
        [("SCRIPT_FILENAME", "/srv/a.php"), ("SCRIPT_NAME", "/a.php"), ("PATH_INFO", "/info")];
    let params =
        [("SCRIPT_FILENAME", "/srv/a.php"), ("SCRIPT_NAME", "/a.php"), ("PATH_INFO", "/info")];
    check(&fixing(), &sent, "/a.php", &params);
    check(&fixing(), &sent, "/a.php", &[("ORIG_SCRIPT_NAME", "-"), ("ORIG_PATH_INFO", "-")]);
    // Without SCRIPT_FILENAME, as IIS once did it.
    check(
        &fixing(),
        &[("PATH_TRANSLATED", "/srv/a.php"), ("SCRIPT_NAME", "/a.php")],
        "/a.php",
        &[("SCRIPT_FILENAME", "/srv/a.php")],
    );
}

#[test]
fn a_path_behind_the_script_is_found() {
    let sent = [
        ("SCRIPT_FILENAME", "/srv/a.php/x/y"),
        ("SCRIPT_NAME", "/a.php/x/y"),
        ("PATH_INFO", "/a.php/x/y"),
        ("DOCUMENT_ROOT", "/srv/"),
    ];
    let params = [
        ("SCRIPT_FILENAME", "/srv/a.php"),
        ("ORIG_SCRIPT_FILENAME", "/srv/a.php/x/y"),
        ("SCRIPT_NAME", "/a.php"),
        ("ORIG_SCRIPT_NAME", "/a.php/x/y"),
        ("PATH_INFO", "/x/y"),
        ("ORIG_PATH_INFO", "/a.php/x/y"),
        ("PATH_TRANSLATED", "/srv/x/y"),
    ];
    check(&fixing(), &sent, "/a.php", &params);
    // Without a document root it is guessed from the name.
    let sent =
        [("SCRIPT_FILENAME", "/srv/a.php/x"), ("SCRIPT_NAME", "/a.php"), ("PATH_TRANSLATED", "/t")];
    let params = [("PATH_TRANSLATED", "/srv"), ("ORIG_PATH_TRANSLATED", "/t"), ("PATH_INFO", "-")];
    check(&fixing(), &sent, "/a.php", &params);
}

/// CVE-2019-11043: PATH_INFO shorter than what is behind the script.
#[test]
fn a_path_info_that_is_too_short_is_left_alone() {
    for info in ["", "/", "/AAAA"] {
        let file = format!("/srv/a.php/{}", "A".repeat(35));
        let sent = [("SCRIPT_FILENAME", &file[..]), ("SCRIPT_NAME", "/a.php"), ("PATH_INFO", info)];
        check(&fixing(), &sent, "/a.php", &[("PATH_INFO", info), ("ORIG_PATH_INFO", "-")]);
    }
}

#[test]
fn apaches_proxy_is_taken_off() {
    for (file, info) in [
        ("proxy:fcgi://127.0.0.1:9000/srv/a.php", "/info"),
        ("Proxy:FCGI://localhost/srv/a.php?q=1", "/info"),
        ("proxy:balancer://cluster/srv/a.php", "/info"),
    ] {
        let sent = [
            ("SCRIPT_FILENAME", file),
            ("SCRIPT_NAME", "/a.php"),
            ("PATH_INFO", info),
            ("PATH_TRANSLATED", "/srv/info"),
            ("REDIRECT_URL", "/a.php"),
        ];
        let params =
            [("SCRIPT_FILENAME", "/srv/a.php"), ("PATH_INFO", info), ("SCRIPT_NAME", "/a.php")];
        check(&fixing(), &sent, "/a.php", &params);
    }
}

#[test]
fn apaches_proxypass_has_the_path_in_the_scripts_name() {
    let cases = [
        ("/info", "/a.php/info", "/a.php", "/a.php/info", "/info"),
        ("/1%202", "/a.php/1 2", "/a.php", "/a.php/1 2", "/1%202"),
        ("/1%20+2", "/a.php/1 +2", "/a.php", "/a.php/1 +2", "/1%20+2"),
        // Neither form fits: it stays.
        ("/infoy", "/a.php/infox", "/a.php/infox", "-", "/infoy"),
    ];
    for (behind, name, uri, original, info) in cases {
        let file = format!("proxy:fcgi://localhost:9000/srv/a.php{behind}");
        let sent =
            [("SCRIPT_FILENAME", &file[..]), ("SCRIPT_NAME", name), ("DOCUMENT_ROOT", "/srv")];
        let params = [("SCRIPT_NAME", uri), ("ORIG_SCRIPT_NAME", original), ("PATH_INFO", info)];
        check(&fixing(), &sent, uri, &params);
    }
}

#[test]
fn apaches_balancer_sends_files_as_paths() {
    let sent = [
        ("SCRIPT_FILENAME", "/srv/a.php/info"),
        ("SCRIPT_NAME", ""),
        ("PATH_INFO", "/srv/a.php/info"),
        ("PATH_TRANSLATED", "proxy:balancer://c/srv/srv/a.php/info/srv/srv/a.php/info"),
        ("DOCUMENT_ROOT", "/srv"),
    ];
    let params =
        [("SCRIPT_NAME", "/srv/a.php"), ("PATH_INFO", "/info"), ("PATH_TRANSLATED", "/srv/info")];
    check(&fixing(), &sent, "/srv/a.php", &params);
}

#[test]
fn apaches_action_has_the_script_in_the_translated_path() {
    let sent = [
        ("SCRIPT_FILENAME", "/usr/lib/cgi-bin/php"),
        ("SCRIPT_NAME", "/cgi-bin/php"),
        ("PATH_INFO", "/a.php"),
        ("PATH_TRANSLATED", "/srv/a.php"),
        ("REDIRECT_URL", "/a.php"),
    ];
    let params = [
        ("SCRIPT_FILENAME", "/srv/a.php"),
        ("ORIG_SCRIPT_FILENAME", "/usr/lib/cgi-bin/php"),
        ("SCRIPT_NAME", "/a.php"),
        ("ORIG_SCRIPT_NAME", "/cgi-bin/php"),
        ("PATH_INFO", "-"),
        ("ORIG_PATH_INFO", "/a.php"),
        ("PATH_TRANSLATED", "-"),
        ("ORIG_PATH_TRANSLATED", "/srv/a.php"),
    ];
    check(&fixing(), &sent, "/a.php", &params);
}

#[test]
fn iis_repeats_the_scripts_name() {
    let iis = ("SERVER_SOFTWARE", "Microsoft-IIS/10.0");
    let file = ("SCRIPT_FILENAME", "/srv/a.php");
    let name = ("SCRIPT_NAME", "/a.php");
    let params = [("PATH_INFO", "/info"), ("ORIG_PATH_INFO", "/a.php/info")];
    check(&fixing(), &[iis, file, name, ("PATH_INFO", "/a.php/info")], "/a.php", &params);
    check(&fixing(), &[iis, file, name, ("PATH_INFO", "/a.php")], "/a.php", &[("PATH_INFO", "-")]);
}

#[test]
fn without_fixing_the_path_info_is_the_uri() {
    let rules = Rules { discard_path: true, ..Rules::default() };
    let info = ("PATH_INFO", "/info");
    let base = [("SCRIPT_FILENAME", "/srv/a.php"), ("SCRIPT_NAME", "/a.php")];
    check(&rules, &[base[0], base[1], info, ("PATH_TRANSLATED", "/elsewhere")], "/info", &[info]);
    check(&rules, &base, "/a.php", &base);
    let translated = ("PATH_TRANSLATED", "/srv/a.php");
    let shown = ("SCRIPT_FILENAME", "/srv/a.php/info");
    check(&Rules::default(), &[shown, base[1], info, translated], "/info", &[shown]);
    check(&Rules::default(), &[base[1], info, translated], "/info", &[("SCRIPT_FILENAME", "-")]);
}

#[test]
fn a_doc_root_of_php_decides() {
    for root in ["/srv", "/srv/"] {
        let rules = Rules { doc_root: root.into(), ..fixing() };
        for name in ["a.php", "/a.php"] {
            let sent = [("SCRIPT_FILENAME", "/elsewhere.php"), ("SCRIPT_NAME", name)];
            let mut env = environment(&[("REQUEST_METHOD", "GET"), sent[0], sent[1]]);
            let found = resolve(&mut env, &rules, |path| match path {
                b"/elsewhere.php" => Kind::File,
                _ => disk(path),
            });
            assert_eq!(
                (found.verdict, found.script.map(|at| env.text(at))),
                (Verdict::Run, Some(FILE))
            );
            assert_eq!(env.value(b"DOCUMENT_ROOT"), root.as_bytes());
        }
    }
}

fn verdict(rules: &Rules, sent: &[(&str, &str)]) -> Verdict {
    let mut env = environment(sent);
    resolve(&mut env, rules, disk).verdict
}

#[test]
fn what_is_no_script_is_not_run() {
    let get = ("REQUEST_METHOD", "GET");
    assert_eq!(verdict(&fixing(), &[]), Verdict::Nothing);
    assert_eq!(verdict(&fixing(), &[("SCRIPT_FILENAME", "/srv/a.php")]), Verdict::Nothing);
    assert_eq!(verdict(&fixing(), &[get]), Verdict::Unknown);
    for file in [
        "/srv/none.php",
        "/none/none.php",
        "nothing",
        "/srv/a.php\0.php",
        "/srv/../srv/a.php",
        "/srv/",
        ".php",
    ] {
        assert_eq!(
            verdict(&fixing(), &[get, ("SCRIPT_FILENAME", file)]),
            Verdict::Unknown,
            "{file:?}"
        );
    }
    for file in ["/srv", ""] {
        assert_eq!(
            verdict(&fixing(), &[get, ("SCRIPT_FILENAME", file)]),
            Verdict::Denied,
            "{file:?}"
        );
    }
    let rules = Rules { extensions: vec![b".html".to_vec(), b".phar".to_vec()], ..fixing() };
    for file in ["/srv/a.php", "/srv/a.php/x.html"] {
        assert_eq!(verdict(&rules, &[get, ("SCRIPT_FILENAME", file)]), Verdict::Denied, "{file:?}");
    }
    // Two dots within a name are a name, and an odd letter is no ending.
    let two = Rules { fix_pathinfo: false, ..fixing() };
    assert_eq!(verdict(&two, &[get, ("SCRIPT_FILENAME", "/srv/a..php")]), Verdict::Run);
    assert_eq!(verdict(&two, &[get, ("SCRIPT_FILENAME", "/srv/a.ph\u{1e55}")]), Verdict::Denied);
    assert_eq!(verdict(&two, &[get, ("SCRIPT_FILENAME", "/srv/a.PHP")]), Verdict::Denied);
}

proptest! {
    /// Whatever is sent: no panic, nothing with a NUL or `..` is run, and what is run is a file
    /// that was there or asked for.
    #[test]
    fn any_parameters_are_judged(
        pairs in proptest::collection::vec((
            proptest::sample::select(vec![
                "SCRIPT_FILENAME", "PATH_TRANSLATED", "PATH_INFO", "SCRIPT_NAME", "REDIRECT_URL", "DOCUMENT_ROOT",
                "SERVER_SOFTWARE", "REQUEST_METHOD",
            ]),
            proptest::collection::vec(proptest::sample::select(vec![
                "/", "a.php", "/srv", "/srv/a.php", "..", "\0", "proxy:fcgi://", "proxy:balancer://h", "?", "%2", "%20", "x",
                "Microsoft-IIS", "\\", "",
            ]), 0..6),
        ), 0..12),
        fix_pathinfo: bool,
        discard_path: bool,
        with_root: bool,
    ) {
        let texts: Vec<(&str, String)> = pairs.iter().map(|(name, parts)| (*name, parts.concat())).collect();
        let sent: Vec<(&str, &str)> = texts.iter().map(|(name, value)| (*name, &value[..])).collect();
        let doc_root = if with_root { b"/srv".to_vec() } else { Vec::new() };
        let rules = Rules { fix_pathinfo, discard_path, doc_root, ..fixing() };
        let mut env = environment(&sent);
        let found = resolve(&mut env, &rules, disk);
        if found.verdict == Verdict::Run {
            let script = env.text(found.script.unwrap());
            prop_assert!(is_plain(script) && script.ends_with(b".php"));
        }
        prop_assert!(env.pairs().count() <= 30);
    }
}
