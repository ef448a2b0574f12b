//! Sites: told apart by host, sealed, with a fallback, set from outside.

use super::*;

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
fn a_site_of_async_mode_has_a_worker_script_and_requests_at_once() {
    let place = Place::with(&["index.php", "w.php"]);
    let site = |text: &str| {
        let Site { mode, worker, concurrency, .. } =
            place.load(&format!("[[site]]\n{text}\n")).unwrap().sites.remove(0);
        (mode, worker, concurrency)
    };
    let worker = Some(place.path("w.php"));
    assert_eq!(
        site("mode = 'async'\nworker = 'w.php'"),
        (Mode::Async, worker.clone(), 32),
        "the default"
    );
    assert_eq!(
        site("mode = 'async'\nworker = 'w.php'\nconcurrency = 1"),
        (Mode::Async, worker.clone(), 1)
    );
    assert_eq!(site("worker = 'w.php'"), (Mode::Worker, worker, 1));
}

#[test]
fn settings_that_async_mode_cannot_have_are_errors() {
    let place = Place::with(&["index.php", "w.php"]);
    let errors = |text: &str| place.errors(&format!("[[site]]\n{text}\n"));
    has(
        &errors("mode = 'async'"),
        &["tokamak.toml:2: site.mode: async mode needs a script", "set `worker`"],
    );
    has(
        &errors("worker = 'w.php'\nconcurrency = 8"),
        &["tokamak.toml:3: site.concurrency: only async mode", "set `mode = \"async\"`"],
    );
    has(
        &errors("mode = 'async'\nworker = 'w.php'\nconcurrency = 0"),
        &["tokamak.toml:4: site.concurrency:"],
    );
    has(
        &errors("mode = 'async'\nworker = 'w.php'\nkeep = ['ini']"),
        &["tokamak.toml:4: site.keep: in async mode each request", "remove the key"],
    );
    has(
        &errors("mode = 'async'\nworker = 'w.php'\nwarm = ['/']"),
        &["tokamak.toml:4: site.warm: only sealed mode"],
    );
}

#[test]
fn settings_that_sealed_mode_cannot_have_are_errors() {
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
fn sites_name_the_addresses_on_which_they_are_served() {
    let place = Place::with(&["a/index.php", "b/index.php"]);
    let top = "listen = [':80', '127.0.0.1:81']\n";
    let load = |sites: &str| place.load(&format!("{top}{sites}"));
    let errors = |sites: &str| place.errors(&format!("{top}{sites}"));
    let address = || "127.0.0.1:81".parse().unwrap();
    let server = load(
        "[[site]]\nroot = 'a'\nhttps_redirect = true\n[[site]]\nlisten = '127.0.0.1:81'\nroot = 'b'\n\
         [[site]]\nlisten = '127.0.0.1:81'\npath = '/tool'\nroot = 'b'\nhttps_redirect = false\n\
         https_port = 8443\n",
    )
    .unwrap();
    let [a, b, tool] = &server.sites[..] else { panic!("three sites") };
    assert_eq!((&a.name[..], &a.listen), ("default", &vec![]));
    assert_eq!((&b.name[..], &b.listen), ("127.0.0.1:81", &vec![address()]));
    assert_eq!((&tool.name[..], tool.tls.port), ("127.0.0.1:81/tool", Some(8443)));

    // The same name on several addresses; a mounted site regards only the sites around it.
    let server = load(
        "[[site]]\nhost = 'x'\nroot = 'a'\nlisten = ':80'\nhttps_redirect = true\n\
         [[site]]\nhost = 'x'\nlisten = '127.0.0.1:81'\nroot = 'b'\n\
         [[site]]\nlisten = ':80'\npath = '/tool'\nroot = 'b'\n",
    )
    .unwrap();
    let names: Vec<&str> = server.sites.iter().map(|site| &site.name[..]).collect();
    assert_eq!(names, ["x", "x@127.0.0.1:81", "0.0.0.0:80/tool"]);
    assert!(server.sites[2].tls.redirect);

    let wrong = errors("[[site]]\nroot = 'a'\nlisten = ':8080'\n");
    has(&wrong, &["tokamak.toml:4: site.listen: 0.0.0.0:8080 is not among the addresses"]);
    has(&wrong, &["tokamak.toml:1: listen: all sites name", "none names 127.0.0.1:81"]);
    let wrong = errors("[[site]]\nroot = 'a'\nlisten = [':80', ':80', '127.0.0.1:81']\n");
    has(&wrong, &["tokamak.toml:4: site.listen: 0.0.0.0:80 is there twice"]);
    let twice = "root = 'a'\nlisten = [':80', '127.0.0.1:81']\n";
    let wrong = errors(&format!("[[site]]\n{twice}[[site]]\n{twice}"));
    has(&wrong, &["tokamak.toml:5: site.host: not set, nor in another site on 0.0.0.0:80"]);
    let twice = "root = 'a'\nhost = 'x'\nlisten = [':80', '127.0.0.1:81']\n";
    let wrong = errors(&format!("[[site]]\n{twice}[[site]]\n{twice}"));
    has(&wrong, &["tokamak.toml:8: site.host: `x` is there twice on 0.0.0.0:80"]);
}

#[test]
fn a_site_may_have_an_access_log_of_its_own() {
    let place = Place::with(&["index.php", "tool/index.php"]);
    let site = |host: &str, text: &str| format!("[[site]]\nhost = '{host}'\nroot = '.'\n{text}\n");
    let text = [
        "[log]\naccess = 'all.log'\naccess_format = 'json'\n".to_owned(),
        site("a", ""),
        site("b", "access_log = 'b.log'\naccess_format = 'vhost'"),
        site("c", "access_log = 'c.log'"),
        site("d", "access_log = 'off'"),
        site("e", "access_log = '-'\naccess_format = 'combined'"),
        site("b", "path = '/tool'"),
        site("b", "path = '/own'\naccess_log = 'all.log'"),
    ];
    let server = place.load(&text.concat()).unwrap();
    let log = |file: &str, format| Some(AccessLog { path: place.path(file), format });
    let logs: Vec<_> = server.sites.iter().map(|site| site.access_log.clone()).collect();
    assert_eq!(
        logs,
        [
            log("all.log", LogFormat::Json),
            log("b.log", LogFormat::Vhost),
            log("c.log", LogFormat::Json),
            None,
            Some(AccessLog { path: "-".into(), format: LogFormat::Combined }),
            log("b.log", LogFormat::Vhost),
            log("all.log", LogFormat::Json),
        ]
    );
    let paths = server.access_logs().into_iter().map(|log| log.path.clone());
    let all = ["all.log", "b.log", "c.log"].map(|file| place.path(file));
    assert_eq!(paths.collect::<Vec<_>>(), [&all[..], &["-".into()]].concat());
    assert_eq!(Place::with(&[]).load(&server.to_toml()).unwrap(), server);

    for (sites, part) in [
        ([site("a", "access_log = 'missing/a.log'"), String::new()], "4: site.access_log: the dir"),
        ([site("a", "access_log = '.'"), String::new()], "4: site.access_log: "),
        ([site("a", "access_format = 'json'"), String::new()], "4: site.access_format: is for"),
        (
            [
                site("a", "access_log = 'a.log'"),
                site("b", "access_log = 'a.log'\naccess_format = 'json'"),
            ],
            "8: site.access_log: ",
        ),
        (
            [
                site("a", "access_log = 'a.log'") + &site("b", ""),
                "[[site]]\nroot = '.'\npath = '/in_both'\n".to_owned(),
            ],
            "9: site.access_log: not set, and the sites",
        ),
    ] {
        has(&place.errors(&sites.concat()), &[part]);
    }
}
