//! The whole way: text, variables and flags in, a [`Server`] or every error out.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use tempfile::TempDir;

use crate::*;

/// A directory with an application, and requests for it.
struct Place {
    directory: TempDir,
}

impl Place {
    /// With an `index.php` in each of `files`' places.
    fn with(files: &[&str]) -> Place {
        let place = Place { directory: TempDir::new().unwrap() };
        for file in files {
            place.write(file, "<?php");
        }
        place
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, file: &str) {
        self.write(file, "#!/bin/sh");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(file), mode).unwrap();
    }

    fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    fn request(&self) -> Request {
        Request {
            path: None,
            config: None,
            flags: Vec::new(),
            environment: Vec::new(),
            directory: self.directory.path().into(),
        }
    }

    /// What `text` as `tokamak.toml` means on two cores.
    fn load(&self, text: &str) -> Result<Server, Errors> {
        self.write("tokamak.toml", text);
        self.request().load_for(2)
    }

    /// The errors of `text`, one line each.
    fn errors(&self, text: &str) -> Vec<String> {
        lines(self.load(text))
    }
}

fn lines(loaded: Result<Server, Errors>) -> Vec<String> {
    loaded.expect_err("it is wrong").iter().map(Error::to_string).collect()
}

fn has(errors: &[String], parts: &[&str]) {
    assert!(
        errors.iter().any(|error| parts.iter().all(|part| error.contains(part))),
        "{parts:?} in {errors:#?}"
    );
}

#[test]
fn nothing_at_all_serves_the_current_directory() {
    let place = Place::with(&["index.php"]);
    let server = place.request().load_for(2).unwrap();
    assert_eq!(server.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!(server.loops, 2);
    assert_eq!(server.limits.head, 32 * 1024);
    assert_eq!(server.timeouts.idle, Duration::from_secs(75));
    assert_eq!(server.log, Log { access: None, error: None });
    let [site] = &server.sites[..] else { panic!("one site") };
    assert_eq!((site.name.as_str(), site.mode), ("default", Mode::Classic));
    assert_eq!(site.root, place.path(""));
    assert_eq!(site.front_controller.as_deref(), Some("index.php"));
    assert_eq!(site.pool.size, PoolSize::Auto { least: 2, max: 8 });
    assert_eq!((site.pool.queue, site.pool.request_timeout), (1024, Duration::ZERO));
}

#[test]
fn path_finds_public_then_index_then_static_files_or_takes_one_script() {
    let place = Place::with(&[
        "a/public/index.php",
        "a/index.php",
        "b/index.php",
        "c/index.html",
        "d/app.php",
        "e/x.txt",
    ]);
    let load = |path: &str| Request { path: Some(path.into()), ..place.request() }.load_for(2);
    for (path, root, script) in [
        ("a", "a/public", Some("index.php")),
        ("b/", "b", Some("index.php")),
        ("./c", "c", None),
        ("d/app.php", "d", Some("app.php")),
    ] {
        let server = load(path).unwrap();
        assert_eq!(server.sites[0].root, place.path(root), "{path}");
        assert_eq!(server.sites[0].front_controller.as_deref(), script, "{path}");
    }
    has(
        &lines(load("e")),
        &["command line PATH", "no public/index.php, index.php or index.html in", "/e"],
    );
    has(&lines(load("gone")), &["command line PATH: site.root", "/gone is not a directory"]);
}

#[test]
fn path_uses_the_file_that_stands_there() {
    let place = Place::with(&["app/public/index.php"]);
    place.write("app/tokamak.toml", "listen = ':81'\n[log]\naccess = 'log'\n");
    let server = Request { path: Some("app".into()), ..place.request() }.load_for(2).unwrap();
    assert_eq!(server.listen[0].to_string(), "0.0.0.0:81");
    assert_eq!(server.sites[0].root, place.path("app/public"));
    assert_eq!(server.log.access.unwrap().path, place.path("app/log"));
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let place = Place::with(&["index.php"]);
    place.write(
        "tokamak.toml",
        "listen = '127.0.0.1:1'\n[site.pool]\n"
            .replace("[site.pool]", "[[site]]\n[site.pool]\nworkers = 1\nqueue = 7")
            .as_str(),
    );
    let mut request = place.request();
    let seen = |request: &Request| {
        let server = request.load_for(2).unwrap();
        (server.listen[0].port(), server.sites[0].pool.size.max(), server.sites[0].pool.queue)
    };
    assert_eq!(seen(&request), (1, 1, 7));
    request.environment = vec![
        ("TOKAMAK_LISTEN".into(), "127.0.0.1:2,127.0.0.1:3".into()),
        ("TOKAMAK_WORKERS".into(), "2".into()),
        ("TOKAMAK_QUEUE".into(), "".into()),
    ];
    assert_eq!(seen(&request), (2, 2, 7));
    request.flags = vec![("--listen", "127.0.0.1:4".into()), ("--workers", "3".into())];
    assert_eq!(seen(&request), (4, 3, 7));
    request.flags = vec![("--workers", "many".into())];
    request.environment.push(("TOKAMAK_LIMITS_HEAD".into(), "1".into()));
    let errors = lines(request.load_for(2));
    has(
        &errors,
        &["command line --workers: site.pool.workers: must be a whole number, not `many` (or \
                \"auto\")"],
    );
    has(
        &errors,
        &["environment TOKAMAK_LIMITS_HEAD: limits.head: 1 is out of bounds; use 1KiB to 1MiB"],
    );
}

#[test]
fn every_error_is_reported_with_file_line_and_key() {
    let place = Place::with(&["index.php"]);
    let errors = place.errors(
        "lissten = ':80'\nloops = 'many'\nhead = 3\n[limits]\nhead = '8MB'\nbody = '1 \
            potato'\n\n[timeouts]\nidle = 30\n\
         [log]\naccess = '/nowhere/at/all'\n[[site]]\nhost = 'a b'\nroot = 'gone'\nworkers = \
         4\nkeep = ['ini', 'timezon']\n\
         mode = 'worker'\nfront-controller = 'none'\n[site.env]\nA = [1]\n[site.pool]\nmanager = \
         'statik'\n[bogus]\n",
    );
    for parts in [
        ["tokamak.toml:1: lissten: unknown key; did you mean `listen`?", ""],
        ["tokamak.toml:2: loops: must be a whole number, not `many`", "or \"auto\""],
        ["tokamak.toml:3: head: unknown here; it belongs to [limits] or [timeouts]", ""],
        ["tokamak.toml:5: limits.head: 8000000 is out of bounds; use 1KiB to 1MiB", ""],
        ["tokamak.toml:6: limits.body: `1 potato` is not a size", "KiB"],
        ["tokamak.toml:9: timeouts.idle: 30 has no unit; write \"30s\"", ""],
        ["tokamak.toml:11: log.access: the directory /nowhere/at does not exist", ""],
        ["tokamak.toml:13: site.host: `a b` is not a host name", ""],
        ["tokamak.toml:14: site.root: ", "/gone is not a directory"],
        ["tokamak.toml:15: site.workers: unknown here; it belongs to [site.pool]", ""],
        ["tokamak.toml:16: site.keep: `timezon` is unknown", "did you mean `timezone`?"],
        ["tokamak.toml:17: site.mode: worker mode needs a script", "set `worker`"],
        [
            "tokamak.toml:18: site.front-controller: unknown key; did you mean `front_controller`?",
            "",
        ],
        ["tokamak.toml:20: site.env.A: must be a text, a number or a boolean, not a list", ""],
        ["tokamak.toml:22: site.pool.manager: `statik` is unknown", "did you mean `static`?"],
        ["tokamak.toml:23: bogus: unknown key", ""],
    ] {
        has(&errors, &parts);
    }
    assert_eq!(errors.len(), 16, "{errors:#?}");
    assert!(
        errors.is_sorted_by_key(|error| error.split(':').nth(1).unwrap().parse::<usize>().unwrap()),
        "{errors:#?}"
    );
}

#[test]
fn a_file_that_is_no_toml_names_the_line() {
    let place = Place::with(&["index.php"]);
    has(&place.errors("loops = 1\nlisten = [\n"), &["tokamak.toml:", "this is not TOML"]);
    has(
        &place.errors("loops = 1\nloops = 2\n"),
        &["tokamak.toml:2: this is not TOML: duplicate key"],
    );
    has(
        &place.errors("[site]\nroot = '.'\n"),
        &["tokamak.toml:1: site: must be a list of tables; write `[[site]]`"],
    );
    has(&place.errors("limits = 4\n"), &["tokamak.toml:1: limits: is a table; write `[limits]`"]);
    std::fs::write(place.path("tokamak.toml"), b"loops = 1\nuser = '\xff'\n").unwrap();
    has(&lines(place.request().load_for(2)), &["tokamak.toml:2: this is not UTF-8"]);
    let gone = Request { config: Some("gone.toml".into()), ..place.request() };
    has(&lines(gone.load_for(2)), &["command line --config: cannot read gone.toml"]);
}

#[test]
fn sites_are_told_apart_by_host() {
    let place = Place::with(&["a/index.php", "b/index.php", "b/boot.php"]);
    let server = place
        .load(
            "[[site]]\nhost = 'A.example'\nroot = 'a'\n[site.php_value]\nopcache.enable = \
                true\nmemory_limit = '1G'\n\
             [[site]]\nhost = ['b.example', '*.b.example']\nroot = 'b'\nworker = \
             'b/boot.php'\nkeep = ['error_handlers']\n\
             [site.pool]\nmanager = 'dynamic'\nworkers = 5\n",
        )
        .unwrap();
    let [a, b] = &server.sites[..] else { panic!("two sites") };
    assert_eq!((a.name.as_str(), a.mode, &a.worker), ("a.example", Mode::Classic, &None));
    assert_eq!(a.php_value["opcache.enable"], "1");
    assert_eq!(a.php_value["memory_limit"], "1G");
    assert_eq!((b.mode, b.worker.clone()), (Mode::Worker, Some(place.path("b/boot.php"))));
    assert_eq!(b.keep, [Reset::ErrorHandlers]);
    assert_eq!(b.pool.size, PoolSize::Dynamic { start: 2, min_spare: 1, max_spare: 3, max: 5 });

    let errors = place
        .errors("[[site]]\nhost = 'x'\nroot = 'a'\n[[site]]\nhost = 'x'\n[[site]]\nroot = 'b'\n");
    has(&errors, &["tokamak.toml:5: site.host: `x` is there twice"]);
    has(&errors, &["tokamak.toml:4: site.root: not set"]);
    has(&errors, &["tokamak.toml:6: site.host: not set"]);
    let mut request = place.request();
    request.flags = vec![("--workers", "2".into())];
    has(
        &lines(request.load_for(2)),
        &["command line --workers: site.pool.workers: the configuration has 3 sites"],
    );
}

#[test]
fn a_sealed_site_has_a_boot_script_or_a_worker_script_or_neither() {
    let place = Place::with(&["index.php", "boot.php", "w.php"]);
    let site = |text: &str| {
        let Site { mode, worker, boot, warm, .. } =
            place.load(&format!("[[site]]\n{text}\n")).unwrap().sites.remove(0);
        (mode, worker, boot, warm)
    };
    let (boot, worker) = (Some(place.path("boot.php")), Some(place.path("w.php")));
    assert_eq!(site("mode = 'sealed'"), (Mode::Sealed, None, None, vec![]));
    assert_eq!(site("mode = 'sealed'\nworker = 'w.php'"), (Mode::Sealed, worker, None, vec![]));
    assert_eq!(
        site(
            "mode = 'sealed'\nboot = 'boot.php'\nwarm = ['/', \
                'https://blog.example/login?a=%20b']\nkeep = []"
        ),
        (Mode::Sealed, None, boot, vec!["/".into(), "https://blog.example/login?a=%20b".into()])
    );
    assert_eq!(site("mode = 'sealed'\nwarm = '/'").3, ["/"]);
}

#[test]
fn what_does_not_fit_sealed_mode_is_told() {
    let place = Place::with(&["index.php", "boot.php", "w.php"]);
    let errors = |text: &str| place.errors(&format!("[[site]]\n{text}\n"));
    has(
        &errors("boot = 'boot.php'"),
        &["tokamak.toml:2: site.boot: only sealed mode", "mode = \"sealed\""],
    );
    has(&errors("mode = 'classic'\nwarm = '/'"), &["tokamak.toml:3: site.warm: only sealed mode"]);
    has(
        &errors("worker = 'w.php'\nwarm = ['/']"),
        &["tokamak.toml:3: site.warm: only sealed mode"],
    );
    has(
        &errors("mode = 'sealed'\nworker = 'w.php'\nboot = 'boot.php'"),
        &["tokamak.toml:4: site.boot: a worker script boots", "remove `boot` or `worker`"],
    );
    has(
        &errors("mode = 'sealed'\nboot = 'gone.php'"),
        &["tokamak.toml:3: site.boot: ", "/gone.php is not a file"],
    );
    has(
        &errors("mode = 'sealed'\nworker = 'gone.php'"),
        &["tokamak.toml:3: site.worker: ", "is not a file"],
    );
    has(
        &errors("mode = 'sealed'\nkeep = ['ini']"),
        &["tokamak.toml:3: site.keep: sealed mode keeps nothing"],
    );
    for target in ["login", "http://", "https:///a", "http://x?y", "ftp://x/", "/a b", "/a#b", "/ä"]
    {
        let text = format!("mode = 'sealed'\nwarm = ['/', '{target}']");
        has(
            &errors(&text),
            &[&format!("tokamak.toml:3: site.warm: `{target}` must begin with `/`")],
        );
    }
}

#[test]
fn a_fallback_is_another_site() {
    let place = Place::with(&["index.php"]);
    let two = |first: &str, second: &str| {
        format!(
            "[[site]]\nhost = 'a.test'\nroot = '.'\n{first}\n[[site]]\nhost = ['b.test', \
                'c.test']\nroot = '.'\n{second}\n"
        )
    };
    let sites = place.load(&two("fallback = 'C.test'", "")).unwrap().sites;
    assert_eq!(sites[0].fallback.as_deref(), Some("b.test"));
    assert_eq!(sites[1].fallback, None);
    let errors = |first: &str, second: &str| place.errors(&two(first, second));
    has(
        &errors("fallback = 'd.test'", ""),
        &["tokamak.toml:4: site.fallback: no site has the host `d.test`"],
    );
    has(
        &errors("fallback = 'a.test'", ""),
        &["tokamak.toml:4: site.fallback: a site cannot be its own"],
    );
    has(
        &errors("fallback = 'b.test'", "fallback = 'a.test'"),
        &["tokamak.toml:4: site.fallback: `b.test` has a fallback itself"],
    );
}

#[test]
fn a_sealed_site_can_be_set_from_outside_and_another_mode_tried() {
    let place = Place::with(&["index.php", "boot.php"]);
    let mut request = place.request();
    request.flags = vec![("--mode", "sealed".into()), ("--boot", "boot.php".into())];
    request.environment = vec![("TOKAMAK_WARM".into(), "/, /login".into())];
    let site = request.load_for(2).unwrap().sites.remove(0);
    assert_eq!((site.mode, site.boot), (Mode::Sealed, Some(place.path("boot.php"))));
    assert_eq!(site.warm, ["/", "/login"]);

    place.write("tokamak.toml", "[[site]]\nmode = 'sealed'\nboot = 'boot.php'\nwarm = '/'\n");
    let request = Request { flags: vec![("--mode", "classic".into())], ..place.request() };
    let site = request.load_for(2).unwrap().sites.remove(0);
    assert_eq!((site.mode, site.boot, site.warm.len()), (Mode::Classic, None, 0));
    let both = vec![("--mode", "classic".into()), ("--boot", "boot.php".into())];
    let request = Request { flags: both, ..place.request() };
    has(&lines(request.load_for(2)), &["command line --boot: site.boot: only sealed mode"]);
}

#[test]
fn pools_must_add_up() {
    let place = Place::with(&["index.php"]);
    let pool =
        |text: &str| place.errors(&format!("[[site]]\n[site.pool]\nmanager = 'dynamic'\n{text}\n"));
    has(
        &pool("workers = 4\nmax_spare = 5"),
        &["tokamak.toml:5: site.pool.max_spare: 5 is more than workers (4)"],
    );
    has(
        &pool("workers = 8\nmin_spare = 7"),
        &["tokamak.toml:5: site.pool.min_spare: 7 is more than max_spare (6)"],
    );
    has(&pool("workers = 8\nstart = 1"), &["tokamak.toml:5: site.pool.start: 1 must lie between"]);
    let loaded = place.load("[[site]]\n[site.pool]\nmanager = 'dynamic'\nworkers = 1\n").unwrap();
    assert_eq!(
        loaded.sites[0].pool.size,
        PoolSize::Dynamic { start: 1, min_spare: 1, max_spare: 1, max: 1 }
    );
}

#[test]
fn scripts_stay_below_the_root() {
    let place = Place::with(&["index.php", "app.php"]);
    for name in ["../x.php", "/../x.php", "a/../app.php", "/"] {
        let errors = place.errors(&format!("[[site]]\nfront_controller = '{name}'\n"));
        has(&errors, &["tokamak.toml:2: site.front_controller"]);
    }
    let server = place.load("[[site]]\nfront_controller = '/app.php'\n").unwrap();
    assert_eq!(server.sites[0].front_controller.as_deref(), Some("app.php"));
    let server = place.load("[[site]]\nfront_controller = 'none'\nindex = []\n").unwrap();
    assert_eq!(
        (server.sites[0].front_controller.as_deref(), server.sites[0].index.len()),
        (None, 0)
    );
}

#[test]
fn the_sample_means_the_defaults() {
    let place = Place::with(&["index.php"]);
    let defaults = place.load("").unwrap();
    assert_eq!(place.load(&sample()).unwrap(), defaults);
    for row in option::rows() {
        assert!(sample().contains(&format!("{} = ", row.name)), "{}", row.key());
    }
}

#[test]
fn what_is_printed_means_the_same() {
    let place = Place::with(&["public/index.php", "w.php"]);
    let server = place
        .load(
            "listen = [':80', '[::1]:81']\nloops = 3\nuser = 'www'\ngroup = 'web'\ncontrol = \
                'c.sock'\npid_file = 'p'\n\
             [limits]\nbody = 12345\n[timeouts]\nhead = '1500ms'\ndrain = 0\n[log]\naccess = \
             '-'\naccess_format = 'json'\nerror = 'e'\n\
             [[site]]\nhost = 'x'\nroot = 'public'\nworker = 'w.php'\nkeep = ['ini', \
             'session']\nenv = { A = \"q\\\"'\\n\" }\n\
             inherit_env = false\nphp_admin_value = { \"a.b\" = 1.5 }\n[site.pool]\nmanager = \
             'ondemand'\nidle = '7s'\n\
             max_memory = '256MiB'\nslow = '2s'\n[[site]]\nhost = 'y'\nroot = \
             '.'\nfront_controller = 'none'\n[site.pool]\nmanager = 'dynamic'\n\
             [[site]]\nhost = 'z'\nroot = '.'\nmode = 'sealed'\nboot = 'w.php'\nwarm = ['/a', \
             '/b?c']\n",
        )
        .unwrap();
    let printed = server.to_toml();
    assert_eq!(Place::with(&[]).load(&printed).unwrap(), server, "{printed}");
    assert_eq!(server.sites[0].env["A"], "q\"'\n");
    assert_eq!(server.control, Some(place.path("c.sock")));
}

#[test]
fn a_reload_names_what_needs_a_restart() {
    let place = Place::with(&["index.php"]);
    let old = place.load("").unwrap();
    let new = place
        .load("listen = ':81'\npid_file = 'x'\ncontrol = 'c'\nloops = 9\n[limits]\nbody = 1\n")
        .unwrap();
    assert_eq!(restart_needed(&old, &new), ["control", "pid_file"]);
    assert!(restart_needed(&old, &old).is_empty());
}

#[test]
fn deep_nesting_is_an_error_and_no_stack_overflow() {
    let place = Place::with(&["index.php"]);
    for text in [
        "env = ".to_owned() + &"[".repeat(50_000),
        "env = ".to_owned() + &"{a=".repeat(50_000),
        "a.".repeat(50_000) + "b = 1",
    ] {
        has(&place.errors(&format!("[[site]]\n{text}\n")), &["tokamak.toml", "this is not TOML: "]);
    }
    has(
        &place.errors(&format!("[[site]]\n[site.env]\n{}b = 1\n", "a.".repeat(50_000))),
        &["tokamak.toml", "not TOML: recursion"],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC*") {
        let _ = parse::parse(&text, "f".as_ref(), &mut Errors::default());
    }

    #[test]
    fn no_mix_of_tokens_makes_it_panic(tokens in prop::collection::vec(prop::sample::select(vec![
        "[", "]", "[[", "]]", "{", "}", "\n", "\n", "=", "=", ".", ",", "'", "site", "limits", "pool", "env", "host", "listen",
        "head", "1", "-1", "'64KiB'", "'x'", "true", "\u{feff}", "\r\n", "#", "\"\"\"", "é",
    ]), 0..40)) {
        let _ = parse::parse(&tokens.concat(), "f".as_ref(), &mut Errors::default());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let place = Place::with(&["index.php"]);
        std::fs::write(place.path("tokamak.toml"), bytes).unwrap();
        let _ = place.request().load_for(2);
    }

    #[test]
    fn no_value_makes_it_panic(
        at in 0..64usize,
        value in prop_oneof![
            Just("''".to_owned()), Just("[]".into()), Just("{}".into()), Just("[[[]]]".into()), Just("1979-05-27".into()),
            Just("[{}]".into()), Just("nan".into()), Just("true".into()), Just("{ a.b.c = [] }".into()),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_filter("TOML", |number| number.is_finite()).prop_map(|number| format!("{number:?}")),
            "[a-z0-9:./*-]{0,12}".prop_map(|text| format!("'{text}'")),
            "[0-9]{1,20}(ms|s|m|h|KiB|GB)".prop_map(|text| format!("['{text}']")),
        ],
    ) {
        let rows: Vec<_> = option::rows().collect();
        let row = rows[at % rows.len()];
        let heading = match row.section {
            "" => String::new(),
            "site" => "[[site]]\n".into(),
            "site.pool" => "[[site]]\n[site.pool]\n".into(),
            other => format!("[{other}]\n"),
        };
        let place = Place::with(&["index.php"]);
        if let Err(errors) = place.load(&format!("{heading}{} = {value}\n", row.name)) {
            prop_assert!(errors.count() > 0 && !errors.to_string().is_empty());
        }
    }
}

#[test]
fn upstreams_and_routes_are_found_by_name() {
    let place = Place::with(&["public/index.php"]);
    let text = r#"
        [[upstream]]
        name = "php"
        address = ["unix:run/php.sock", "10.0.0.1:9000"]
        connections = 4
        internal = { "/files" = "public" }
        [[upstream]]
        name = "app"
        address = "unix:/run/app.sock"
        [[site]]
        root = "public"
        upstream = "php"
        [[site.route]]
        path = "/"
        upstream = "app"
        [[site.route]]
        path = "/longer/"
        upstream = "php"
        split = ".pl"
        script = "app.pl"
        files = true
    "#;
    let server = place.load(text).unwrap();
    let [php, app] = &server.upstreams[..] else { panic!("two upstreams") };
    assert_eq!(
        php.addresses,
        [Endpoint::Unix(place.path("run/php.sock")), Endpoint::Tcp("10.0.0.1:9000".into())]
            .map(|endpoint| Address { endpoint, weight: 1 })
    );
    assert_eq!((php.connections, app.connections), (4, 16));
    assert_eq!(php.internal, [("/files/".to_owned(), place.path("public"))].into());
    let site = &server.sites[0];
    assert_eq!((site.mode, site.upstream, site.has_workers()), (Mode::Fastcgi, Some(0), false));
    let route = |path: &str, upstream, split, script, files| Route {
        path: path.into(),
        upstream: Some(upstream),
        authorizer: None,
        filter: None,
        split,
        script,
        files,
        lua: Scripts::default(),
        cache: Caching::default(),
    };
    assert_eq!(
        site.routes,
        [
            route("/longer", 0, Split::Extension(".pl".into()), Some(place.path("app.pl")), true),
            route("", 1, Split::Path, None, false),
        ]
    );
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
}

#[test]
fn authorizers_hold_for_all_below() {
    let place = Place::with(&["index.php"]);
    let text = r#"
        [[upstream]]
        name = "app"
        address = "unix:/app"
        [[upstream]]
        name = "guard"
        address = "unix:/guard"
        [[upstream]]
        name = "other"
        address = "unix:/other"
        [[site]]
        mode = "classic"
        authorizer = "guard"
        [[site.route]]
        path = "/login"
        authorizer = "none"
        [[site.route]]
        path = "/login/help/app"
        upstream = "app"
        [[site.route]]
        path = "/loginless"
        upstream = "app"
        [[site.route]]
        path = "/files/deep"
        filter = "app"
        filter_extensions = [".html", ".txt"]
        [[site.route]]
        path = "/files"
        authorizer = "other"
    "#;
    let server = place.load(text).unwrap();
    let site = &server.sites[0];
    assert_eq!(site.authorizer, Some(1));
    let guards: Vec<_> =
        site.routes.iter().map(|route| (route.path.as_str(), route.authorizer)).collect();
    assert_eq!(
        guards,
        [
            ("/login/help/app", None),
            ("/files/deep", Some(2)),
            ("/loginless", Some(1)),
            ("/login", None),
            ("/files", Some(2)),
        ]
    );
    let extensions = vec![".html".to_owned(), ".txt".to_owned()];
    assert_eq!(site.routes[1].filter, Some(Filter { upstream: 0, extensions }));
    assert_eq!(site.routes[1].upstream, None);
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
}

#[test]
fn an_application_to_start_is_found() {
    let place = Place::with(&["index.php"]);
    place.program("app/bin/run");
    place.program("bin/named");
    let text = format!(
        r#"
        [[upstream]]
        name = "one"
        spawn = ["bin/run", "--fast", "x y"]
        directory = "app"
        processes = 3
        user = "somebody"
        stop_signal = "usr1"
        [[upstream]]
        name = "two"
        spawn = "named"
        env = {{ PATH = "/nowhere:{}" }}
        inherit_env = false
        processes = 4
        shared = true
        "#,
        place.path("bin").display()
    );
    let server = place.load(&text).unwrap();
    let [one, two] = &server.upstreams[..] else { panic!("two upstreams") };
    assert!(one.addresses.is_empty());
    assert_eq!((one.connections, two.connections), (1, 4));
    let (one, two) = (one.spawn.as_ref().unwrap(), two.spawn.as_ref().unwrap());
    assert_eq!((&one.program, &one.directory), (&place.path("app/bin/run"), &place.path("app")));
    assert_eq!(one.arguments, ["--fast", "x y"]);
    assert_eq!((one.processes, one.sockets(), one.stop_signal), (3, 3, StopSignal::User1));
    assert_eq!((&two.program, &two.directory), (&place.path("bin/named"), &place.path("")));
    assert_eq!((two.processes, two.sockets(), two.inherit_env), (4, 1, false));
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
}

#[test]
fn a_program_is_looked_for_in_the_servers_own_path() {
    let place = Place::with(&["index.php"]);
    place.program("bin/named");
    place.write("tokamak.toml", "[[upstream]]\nname = \"a\"\nspawn = \"named\"");
    let mut request = place.request();
    let errors = lines(request.load_for(2));
    has(&errors, &["tokamak.toml:3: upstream.spawn", "there is no program `named` in PATH"]);
    request.environment = vec![("PATH".into(), place.path("bin").display().to_string())];
    let server = request.load_for(2).unwrap();
    assert_eq!(server.upstreams[0].spawn.as_ref().unwrap().program, place.path("bin/named"));
}

#[test]
fn wrong_upstreams_and_routes_are_told() {
    let place = Place::with(&["index.php"]);
    for (text, parts) in [
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"/bin/sh\"\naddress = \"a:1\"",
            &[":4", "upstream.address", "made by the server"][..],
        ),
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"/bin/sh\"\ndirectory = \"none\"",
            &[":4", "upstream.directory", "is not a directory"],
        ),
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"./index.php\"",
            &[":3", "there is no program `./index.php` in"],
        ),
        (
            "[[upstream]]\nname = \"a\"\nspawn = \"/bin/sh\"\ngroup = \"b\"",
            &[":4", "upstream.group", "set `user` too"],
        ),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\nprocesses = 2",
            &[":4", "upstream.processes", "only an application that is started here"],
        ),
        ("[[upstream]]\naddress = \"a:1\"", &["upstream.name", "not set"][..]),
        ("[[upstream]]\nname = \"a\"", &["upstream.address", "not set"]),
        ("[[upstream]]\nname = \"a\"\naddress = \"a\"", &[":3", "`a` is no address"]),
        ("[[upstream]]\nname = \"a\"\naddress = \"a:0\"", &["`a:0` is no address"]),
        ("[[upstream]]\nname = \"a\"\naddress = \"unix:\"", &["`unix:` is no address"]),
        ("[upstream]\nname = \"a\"", &["upstream", "`[[upstream]]`, with two brackets"]),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\n[[upstream]]\nname = \"a\"\naddress = \
                \"a:1\"",
            &[":5", "`a` is there twice"],
        ),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\ninternal = { x = \"/\" }",
            &["`x` must begin with `/`"],
        ),
        (
            "[[upstream]]\nname = \"a\"\naddress = \"a:1\"\ninternal = { \"/x\" = \"none\" }",
            &["is not a directory"],
        ),
        ("[[site]]\nupstream = \"a\"", &["site.upstream", "there is no [[upstream]] `a`"]),
        (
            "[[upstream]]\nname = \"php\"\naddress = \"a:1\"\n[[site]]\nupstream = \"phq\"",
            &["did you mean `php`?"],
        ),
        (
            "[[site]]\nupstream = \"a\"\nmode = \"classic\"",
            &["only fastcgi mode sends scripts to an upstream"],
        ),
        ("[[site]]\n[[site.route]]\nupstream = \"a\"", &["site.route.path", "not set"]),
        ("[[site]]\n[[site.route]]\npath = \"/a\"", &["site.route.upstream", "not set"]),
        ("[[site]]\n[[site.route]]\npath = \"/a\"\nsplit = \"x\"", &["`x` is unknown; use path"]),
        ("[[site]]\n[[site.route]]\npath = \"/a\"\nupstream = \"x\"", &["no [[upstream]] `x`"]),
        ("[[site]]\n[[site.route]]\npath = \"a\"\nupstream = \"x\"", &["`a` must begin with `/`"]),
        ("[[site]]\n[[site.route]]\nroute = \"a\"", &["unknown key"]),
    ] {
        has(&place.errors(text), parts);
    }
}

#[test]
fn addresses_have_weights_and_requests_are_bound_to_them() {
    let place = Place::with(&["index.php"]);
    let text = r#"
        [[upstream]]
        name = "php"
        address = ["unix:run/php.sock", { address = "10.0.0.1:9000", weight = 3 }]
        balance = "least_busy"
        affinity = ["cookie:session", "header:X-User", "segment:2", "prefix:/[a-z]+", "query:id", "user", "client"]
        spill = true
        failures = 0
        pause = "250ms"
        check = "/ping?full"
        check_status = 204
        check_params = { HTTP_HOST = "a" }
    "#;
    let server = place.load(text).unwrap();
    let php = &server.upstreams[0];
    let addresses: Vec<(String, u32)> = php
        .addresses
        .iter()
        .map(|address| (address.endpoint.to_string(), address.weight))
        .collect();
    let socket = format!("unix:{}", place.path("run/php.sock").display());
    assert_eq!(addresses, [(socket, 1), ("10.0.0.1:9000".to_owned(), 3)]);
    assert_eq!((php.balance, php.spill), (Balance::LeastBusy, true));
    assert_eq!(php.affinity[1], Affinity::Header("x-user".into()));
    assert_eq!((php.health.failures, php.health.pause), (0, Duration::from_millis(250)));
    let check = php.check.as_ref().unwrap();
    assert_eq!((check.path.as_str(), check.status, check.fall), ("/ping?full", 204, 3));
    let again = place.load(&server.to_toml()).unwrap();
    assert_eq!(again.upstreams, server.upstreams);
}

#[test]
fn what_is_wrong_with_addresses_is_said() {
    let place = Place::with(&["index.php"]);
    let errors = place.errors(
        "[[upstream]]\nname = 'a'\naddress = ['unix:/s', 'unix:/s']\naffinity = \
            'cookies:a'\nspill = true\n\
         [[upstream]]\nname = 'b'\naddress = { address = '10.0.0.1', weigth = 1, weight = 0 }\n\
         affinity = ['segment:0', 'prefix:(', 'header:']\n\
         [[upstream]]\nname = 'c'\naddress = [{ weight = 2 }]\n\
         [[upstream]]\nname = 'd'\naddress = 'srv:a b'\n",
    );
    for parts in [
        &["tokamak.toml:4: upstream.affinity: `cookies:a` is unknown", "did you mean `cookie:`"][..],
        &["tokamak.toml:8: upstream.address.address: `10.0.0.1` is no address"],
        &["tokamak.toml:8: upstream.address.weigth: unknown key; did you mean `weight`?"],
        &[
            "tokamak.toml:8: upstream.address.weight: must be a whole number from 1 to 1000, not `0`",
        ],
        &["tokamak.toml:9: upstream.affinity: `0` is no number of a path's part"],
        &["tokamak.toml:9: upstream.affinity: `(` is no regular expression"],
        &["tokamak.toml:9: upstream.affinity: `header:` needs something behind the colon"],
        &["tokamak.toml:12: upstream.address: a table needs its `address`"],
        &["tokamak.toml:15: upstream.address: `srv:a b` is no address"],
    ] {
        has(&errors, parts);
    }
    let errors =
        place.errors("[[upstream]]\nname = 'a'\naddress = ['unix:/s', 'unix:/s']\nspill = true\n");
    let checks = place.errors(
        "[[upstream]]\nname = 'a'\naddress = 'unix:/s'\ncheck = 'ping'\n\
         [[upstream]]\nname = 'b'\naddress = 'srv:_a._tcp.b'\ncheck_params = { A = 'b' }\n",
    );
    has(&checks, &["tokamak.toml:4: upstream.check: `ping` must begin with `/`"]);
    has(&checks, &["tokamak.toml:8: upstream.check_params: nothing is checked; set `check`"]);
    assert_eq!(checks.len(), 2, "{checks:#?}");
    has(
        &errors,
        &["tokamak.toml:3: upstream.address: `unix:/s` is there twice", "give it a `weight`"],
    );
    has(&errors, &["tokamak.toml:4: upstream.spill: nothing binds requests to an address"]);
}

#[test]
fn shared_dictionaries_are_named_and_sized() {
    let place = Place::with(&["a/index.php"]);
    let server =
        place.load("[lua.shared]\nlimits = '1MiB'\nsmall = 4096\n[[site]]\nroot = 'a'\n").unwrap();
    let expected = [("limits".to_string(), 1 << 20), ("small".to_string(), 4096)];
    assert_eq!(server.lua.shared, expected.into());
    let errors = place.errors("[lua.shared]\n'a-b' = '1MiB'\nlittle = '1KiB'\nnone = true\n");
    has(&errors, &["tokamak.toml:2: lua.shared.a-b", "must be one of Lua"]);
    has(&errors, &["tokamak.toml:3: lua.shared.little", "out of bounds"]);
    has(&errors, &["tokamak.toml:4: lua.shared.none", "must be a size"]);
}

#[test]
fn a_route_may_keep_what_its_site_does_not() {
    let place = Place::with(&["index.php"]);
    let text = r#"
        [cache]
        memory = "8MiB"
        largest = "2MiB"
        [[site]]
        cache_lifetime = "5s"
        cache_ignore = ["set_cookie"]
        [[site.route]]
        path = "/news"
        cache = true
        cache_ignore = ["cookie", "request"]
        cache_ignore_query = "utm_*"
    "#;
    let server = place.load(text).unwrap();
    assert_eq!((server.cache.memory, server.cache.largest), (8 << 20, 2 << 20));
    let site = &server.sites[0];
    let five = Duration::from_secs(5);
    let set_cookie = vec![Ignored::SetCookie];
    let caching = Caching { lifetime: five, ignore: set_cookie, ..Caching::default() };
    assert_eq!(site.cache, caching);
    let ignore = vec![Ignored::Cookie, Ignored::Request];
    let ignore_query = vec!["utm_*".to_owned()];
    assert_eq!(site.routes[0].cache, Caching { is_on: true, ignore, ignore_query, ..caching });
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
    let errors =
        place.load("[cache]\nmemory = \"8MiB\"\nlargest = \"3MiB\"").unwrap_err().to_string();
    assert!(
        errors.contains("cache.largest") && errors.contains("a quarter of `memory`"),
        "{errors}"
    );
}
