//! The whole way: text, variables and flags in, a [`Server`] or every error out.

mod acme;
mod certificates;
mod client_limits;
mod invented;
mod mercure;
mod proxies;
mod rules;
mod secrets;
mod sites;
mod upstreams;
mod warnings;

use std::path::PathBuf;
use std::time::Duration;

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
        &["tokamak.toml:2: this is not TOML: duplicate key `loops`"],
    );
    has(
        &place.errors("[limits]\nbody = 1\n[cache]\n[limits]\nhead = 1\n"),
        &["tokamak.toml:4: this is not TOML: duplicate key `limits`"],
    );
    has(
        &place.errors("admin = {token = 's3cret', token = 's3cret'}\n"),
        &["tokamak.toml:1: this is not TOML: duplicate key `token`"],
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
             'session']\nphp_value = { A = \"q\\\"'\\n\" }\n\
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
    assert_eq!(server.sites[0].php_value["A"], "q\"'\n");
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

#[test]
fn a_route_may_be_compressed_in_another_way_than_its_site() {
    let place = Place::with(&["index.php"]);
    let usual = Compression::default();
    assert_eq!(usual.codings, Coding::ALL);
    assert_eq!(place.load("").unwrap().sites[0].compression, usual);
    let text = r#"
        [[site]]
        compression = ["gzip", "zstd"]
        compression_types = ["text/*", "*+JSON"]
        compression_cross_site = true
        [[site.route]]
        path = "/none"
        compression = false
        [[site.route]]
        path = "/all"
        compression = true
        compression_types = "*/*"
        compression_smallest = "1KiB"
    "#;
    let server = place.load(text).unwrap();
    let site = Compression {
        codings: vec![Coding::Gzip, Coding::Zstd],
        types: vec!["text/*".into(), "*+json".into()],
        cross_site: true,
        ..usual
    };
    assert_eq!(server.sites[0].compression, site);
    let route = |path| server.sites[0].routes.iter().find(|route| route.path == path).unwrap();
    let none = Compression { codings: Vec::new(), ..site.clone() };
    assert_eq!(route("/none").compression, none);
    let (codings, types) = (Coding::ALL.to_vec(), vec!["*/*".to_owned()]);
    assert_eq!(route("/all").compression, Compression { codings, types, smallest: 1024, ..site });
    assert_eq!(place.load(&server.to_toml()).unwrap(), server);
    for (line, problem) in [
        ("compression = ['gzip', 'deflate']", "`deflate` is unknown; use zstd, br or gzip"),
        ("compression = 'yes'", "(or true or false)"),
        ("compression = ['gzip', 'gzip']", "`gzip` is there twice"),
        ("compression_types = 'html'", "`html` is not a media type"),
        ("compression_types = 'text/html; charset=utf-8'", "without parameters"),
        ("compression_types = 'te*t/html'", "is not a media type"),
        ("compression_smallest = 0", "0 is out of bounds"),
    ] {
        let errors = place.errors(&format!("[[site]]\n{line}\n"));
        has(&errors, &["tokamak.toml:2: site.compression", problem]);
    }
    let plain = "[[site]]\n[[site.route]]\npath = '/a'\ncompression = true\n";
    has(&place.errors(plain), &["site.route.upstream", "`compression`"]);
}
