use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A site with a bit of everything.
fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("public");
    for path in ["docs", "empty", "blog", "lib.php", ".git", ".well-known", "a b", "up"] {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    for path in [
        "index.php",
        "x.php",
        "X2.PHP",
        "style.css",
        "docs/index.html",
        "blog/index.php",
        "lib.php/in.php",
        "lib.php/style.css",
        ".env",
        ".git/config",
        ".well-known/security.txt",
        "x.php.bak",
        "x.php~",
        "old.phtml",
        "up/a.jpg",
        "a b/index.html",
        "new\u{fc}.txt",
    ] {
        fs::write(root.join(path), path).unwrap();
    }
    fs::write(dir.path().join("secret.txt"), "secret").unwrap();
    dir
}

fn router(dir: &TempDir, front_controller: Option<&str>) -> Router {
    router_at(&dir.path().join("public"), front_controller)
}

fn router_at(root: &Path, front_controller: Option<&str>) -> Router {
    Router::below(root, &["index.php", "index.html"].map(str::to_owned), front_controller)
}

/// The answer in one line, with paths from the root.
fn describe(router: &Router, target: &str) -> String {
    let root = router.root().to_str().unwrap().to_owned();
    let short = |path: &[u8]| String::from_utf8_lossy(path).strip_prefix(&root).unwrap().to_owned();
    match router.find(&target.parse().unwrap()).target {
        Target::File(found) => format!("file {}", short(found.path.as_os_str().as_bytes())),
        Target::Script(script) => {
            let name = short(script.filename.as_os_str().as_bytes());
            assert_eq!(name.as_bytes(), &*script.script_name);
            let info = String::from_utf8_lossy(script.path_info());
            format!("script {name} {info}").trim_end().to_owned()
        }
        Target::Application(script, upstream) => {
            let [name, info] =
                [&*script.script_name, script.path_info()].map(String::from_utf8_lossy);
            format!(
                "upstream {upstream} {} {name} {info}",
                short(script.filename.as_os_str().as_bytes())
            )
        }
        Target::Redirect(to, _) => format!("to {to}"),
        Target::Listing(folder) => format!("list {}", short(folder.as_os_str().as_bytes())),
        Target::NotFound => "404".into(),
        Target::Forbidden => "403".into(),
        Target::Gone => "410".into(),
        Target::Unreadable(failure, _) => failure.status().as_str().into(),
        Target::BadRequest => "400".into(),
        Target::Hub => "hub".into(),
    }
}

#[test]
fn targets_find_their_answer() {
    let dir = site();
    let with = router(&dir, Some("index.php"));
    let without = router(&dir, None);
    for (target, with_front, without_front) in [
        ("/", "script /index.php", "script /index.php"),
        ("/?a=/b.php", "script /index.php", "script /index.php"),
        ("http://host/x.php?y", "script /x.php", "script /x.php"),
        ("/x.php", "script /x.php", "script /x.php"),
        ("/%78.php", "script /x.php", "script /x.php"),
        ("/docs/../x.php", "script /x.php", "script /x.php"),
        ("/x.php/", "script /x.php /", "script /x.php /"),
        ("/x.php/extra/y.php?z", "script /x.php /extra/y.php", "script /x.php /extra/y.php"),
        ("/x.php/%C3%A9%20", "script /x.php /\u{e9} ", "script /x.php /\u{e9} "),
        ("/index.php/a", "script /index.php /a", "script /index.php /a"),
        ("/lib.php/in.php/more", "script /lib.php/in.php /more", "script /lib.php/in.php /more"),
        ("/lib.php/style.css", "file /lib.php/style.css", "file /lib.php/style.css"),
        ("/lib.php", "script /index.php", "404"),
        // No script of that name: not the front controller's business.
        ("/none.php", "404", "404"),
        ("/none.php/extra", "404", "404"),
        ("/up/a.jpg/x.php", "404", "404"),
        ("/up/a.jpg/.php", "404", "404"),
        ("/x.php%00.jpg", "400", "400"),
        // Source, whatever it is called.
        ("/X2.PHP", "404", "404"),
        ("/old.phtml", "404", "404"),
        ("/x.php.bak", "404", "404"),
        ("/x.php~", "404", "404"),
        ("/style.css", "file /style.css", "file /style.css"),
        ("/style.css?v=1", "file /style.css", "file /style.css"),
        ("//style.css", "file /style.css", "file /style.css"),
        ("/new%C3%BC.txt", "file /new\u{fc}.txt", "file /new\u{fc}.txt"),
        ("/style.css/", "script /index.php", "404"),
        ("/style.css/more", "script /index.php", "404"),
        ("/docs", "to /docs/", "to /docs/"),
        ("/docs?a=b", "to /docs/?a=b", "to /docs/?a=b"),
        ("//docs", "to /docs/", "to /docs/"),
        ("//evil.example/..//docs", "to /docs/", "to /docs/"),
        ("/a%20b", "to /a%20b/", "to /a%20b/"),
        ("/docs/", "file /docs/index.html", "file /docs/index.html"),
        ("/blog", "to /blog/", "to /blog/"),
        ("/blog/", "script /blog/index.php", "script /blog/index.php"),
        // No redirect without an index file: the application might redirect back.
        ("/empty", "script /index.php", "404"),
        ("/empty/", "script /index.php", "404"),
        ("/post/1", "script /index.php", "404"),
        ("/post/1/", "script /index.php", "404"),
        ("/.env", "404", "404"),
        ("/.git/config", "404", "404"),
        ("/docs/%2e%2e/.git/config", "404", "404"),
        ("/.none", "404", "404"),
        (
            "/.well-known/security.txt",
            "file /.well-known/security.txt",
            "file /.well-known/security.txt",
        ),
        ("/.well-known/none", "script /index.php", "404"),
        ("/../secret.txt", "400", "400"),
        ("/docs/..%2f..%2fsecret.txt", "400", "400"),
        ("/%", "400", "400"),
        ("*", "400", "400"),
    ] {
        let (left, right) = (with_front.trim_end(), without_front.trim_end());
        assert_eq!(describe(&with, target), left, "{target} with a front controller");
        assert_eq!(describe(&without, target), right, "{target} without a front controller");
    }
    let long = format!("/{}", "x".repeat(5000));
    assert_eq!(describe(&with, &long), "script /index.php");
    assert_eq!(describe(&without, &long), "404");
}

#[test]
fn a_missing_front_controller_is_not_found() {
    let dir = site();
    assert_eq!(describe(&router(&dir, Some("app.php")), "/post/1"), "404");
    assert_eq!(describe(&router(&dir, Some("/lib.php")), "/post/1"), "404", "a directory");
    assert_eq!(
        describe(&router(&dir, Some("/blog/index.php")), "/post/1"),
        "script /blog/index.php"
    );
}

#[test]
fn found_scripts_are_remembered_for_a_second_and_missing_ones_never() {
    let dir = site();
    let router = router(&dir, None);
    let now = tokamak_cost::coarse();
    let script = dir.path().join("public/x.php");
    let is_script = |target: Target| matches!(target, Target::Script(_));
    assert!(is_script(router.find_at(b"/x.php", None, now).target));
    fs::remove_file(&script).unwrap();
    assert!(is_script(router.find_at(b"/x.php/a", None, now + 900_000_000).target));
    assert!(!is_script(router.find_at(b"/x.php", None, now + 1_000_000_000).target));
    fs::write(&script, "").unwrap();
    assert!(is_script(router.find_at(b"/x.php", None, now + 1_000_000_000).target));
}

#[test]
fn the_root_may_be_a_link_and_links_are_followed() {
    let dir = site();
    symlink(dir.path().join("public"), dir.path().join("current")).unwrap();
    symlink(dir.path().join("secret.txt"), dir.path().join("public/shared.txt")).unwrap();
    let router = router_at(&dir.path().join("current"), None);
    assert_eq!(router.root(), dir.path().join("public").canonicalize().unwrap());
    assert_eq!(describe(&router, "/"), "script /index.php");
    assert_eq!(describe(&router, "/shared.txt"), "file /shared.txt");
}

#[test]
fn pipes_and_unreadable_files_are_not_sent() {
    let dir = site();
    let root = dir.path().join("public");
    for name in ["pipe", "pipe.php"] {
        assert!(
            std::process::Command::new("mkfifo").arg(root.join(name)).status().unwrap().success()
        );
    }
    let router = router(&dir, None);
    assert_eq!(describe(&router, "/pipe"), "404");
    assert_eq!(describe(&router, "/pipe.php"), "404");

    for name in ["style.css", "x.php", "blog/index.php"] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    // For root nothing is unreadable.
    let expected = if fs::File::open(root.join("x.php")).is_ok() {
        ["file /style.css", "script /x.php", "script /blog/index.php"]
    } else {
        ["403", "403", "403"]
    };
    for (target, expected) in ["/style.css", "/x.php", "/blog/"].into_iter().zip(expected) {
        assert_eq!(describe(&router, target), expected, "{target}");
    }
    let because = |number| refused(Path::new("/a"), &io::Error::from_raw_os_error(number));
    assert!(because(libc::ENOTDIR).is_none());
    assert!(matches!(because(libc::EACCES), Some(Target::Unreadable(Failure::Forbidden, _))));
    assert!(matches!(because(libc::EMFILE), Some(Target::Unreadable(Failure::FileUnavailable, _))));
    assert!(matches!(because(libc::EIO), Some(Target::Unreadable(Failure::FileBroken, _))));
}

proptest! {
    #[test]
    fn no_target_leaves_the_root(parts in prop::collection::vec(prop::sample::select(vec![
        "/", "..", ".", "%2e", "%2F", "%5c", "\\", "docs", "x.php", "style.css", "secret.txt", "public", "%00", "~",
        "lib.php", "a", "%25", "2e",
    ]), 0..16)) {
        thread_local! {
            static SITE: TempDir = site();
        }
        SITE.with(|dir| {
            let router = router(dir, Some("index.php"));
            let root = router.root().to_owned();
            let target = format!("/{}", parts.concat());
            let path = match router.find(&target.parse().unwrap()).target {
                Target::File(found) => found.path,
                Target::Script(script) => script.filename.to_path_buf(),
                Target::Redirect(to, _) => {
                    prop_assert!(to.starts_with('/') && !to.starts_with("//"), "{} {}", target, to);
                    return Ok(());
                }
                _ => return Ok(()),
            };
            prop_assert!(path.canonicalize().unwrap().starts_with(&root), "{} {:?}", target, path);
            Ok(())
        })?;
    }

    #[test]
    fn random_targets_never_panic(target in prop::collection::vec(any::<u8>(), 0..60)) {
        thread_local! {
            static SITE: TempDir = site();
        }
        SITE.with(|dir| drop(router(dir, None).find_at(&target, None, tokamak_cost::coarse())));
    }
}

#[test]
fn routes_come_first() {
    let dir = site();
    let route = |path: &str, upstream, split, files| Route {
        upstream_path: None,
        path: path.into(),
        upstream: Some(upstream),
        authorizer: None,
        filter: None,
        split,
        script: None,
        files,
        lua: tokamak_config::Scripts::default(),
        cache: tokamak_config::Caching::default(),
        compression: tokamak_config::Compression::default(),
        server_timing: false,
    };
    let router = Router {
        routes: vec![
            route("/docs/app", 0, Split::Path, false),
            route("/cgi", 1, Split::Extension(".pl".into()), false),
            route("/docs", 2, Split::Whole, true),
        ],
        ..router(&dir, Some("index.php"))
    };
    for (target, expected) in [
        ("/docs/app", "upstream 0 /docs/app /docs/app "),
        ("/docs/app/", "upstream 0 /docs/app /docs/app /"),
        ("/docs/app/x%20y?q=/z", "upstream 0 /docs/app /docs/app /x y"),
        ("/docs/apple", "upstream 2 /docs/apple /docs/apple "),
        ("/docs/app/../app/x.php", "upstream 0 /docs/app /docs/app /x.php"),
        ("/cgi/a.pl", "upstream 1 /cgi/a.pl /cgi/a.pl "),
        ("/cgi/a.plx/b.pl/c/d.pl", "upstream 1 /cgi/a.plx/b.pl /cgi/a.plx/b.pl /c/d.pl"),
        ("/cgi/a.txt", "404"),
        ("/docs/index.html", "file /docs/index.html"),
        ("/docs/none.html", "upstream 2 /docs/none.html /docs/none.html "),
        ("/docs/.git", "404"),
        ("/x.php", "script /x.php"),
    ] {
        assert_eq!(describe(&router, target), expected, "{target}");
    }
    for (target, route) in [
        ("/docs/app/x", Some(0)),
        ("/docs/a%70p", Some(0)),
        ("/x/../docs/apple", Some(2)),
        ("/docs/.git", Some(2)),
        ("/documents", None),
        ("/%2e%2e/docs", None),
    ] {
        assert_eq!(router.route_of(&target.parse().unwrap()), route, "{target}");
    }
}
