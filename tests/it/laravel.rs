//! A Laravel application from Debian's packages (`examples/laravel`): its front controller in
//! classic mode and under php-fpm, and booted before the image in sealed mode.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::applications::rules;
use crate::harness::{
    Kind, Server, Setup, check, eventually, form, get, in_parallel, program, row,
};
use crate::layers::root;
use crate::services::visitor::Visitor;

crate::harness::of_kinds!(
    serves_every_page_to_whom_it_belongs;
    classic: Classic, sealed: Sealed, peer: Peer
);

/// Longest wait for pages that are compiled for good.
const PATIENCE: Duration = Duration::from_secs(20);

/// The running application; the server ends before its files go.
struct Application {
    server: Server,
    _storage: TempDir,
}

fn start(kind: Kind) -> Application {
    let storage = tempfile::Builder::new().prefix("tokamak-laravel-").tempdir().unwrap();
    for name in ["views", "sessions", "cache"] {
        fs::create_dir(storage.path().join(name)).unwrap();
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(storage.path().join(name), all).unwrap();
    }
    fs::set_permissions(storage.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = |name: &str| storage.path().join(name).to_str().unwrap().to_owned();
    let key = format!("base64:{}=", "A".repeat(43));
    let server = Setup::new(kind)
        .site("../examples/laravel")
        .public("public")
        .boot("../boot.php")
        .front_controller("index.php")
        .workers(4)
        .site_line("front_controller_for = [\"php\", \"hidden\"]")
        .site_line(&rules("laravel.toml"))
        .php_value("error_reporting", "8191") // Laravel 8 under PHP 8.2: all but deprecations
        .env("APP_KEY", &key)
        .env("APP_STORAGE", &path(""))
        .env("APP_SERVICES_CACHE", &path("cache/services.php"))
        .env("APP_PACKAGES_CACHE", &path("cache/packages.php"))
        .start();
    compile_pages(&server, storage.path());
    Application { server, _storage: storage }
}

/// Compiles the pages. Laravel does so again in each request, and in place, so that another one may
/// read an empty file, as long as the source is not older by a second: it is a copy just made.
fn compile_pages(server: &Server, storage: &Path) {
    let seconds = |directory: &Path| -> Vec<i64> {
        let files = fs::read_dir(directory).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().mtime()).collect()
    };
    let sources = seconds(&server.places.root().join("resources/views"));
    let done = eventually(PATIENCE, || {
        for target in ["/", "/login"] {
            server.get(target).expect(200);
        }
        let compiled = seconds(&storage.join("views"));
        let are_newer = compiled.iter().min() > sources.iter().max();
        (are_newer && compiled.len() == sources.len()).then_some(())
    });
    assert_eq!(done, Some(()), "pages are compiled");
}

fn serves_every_page_to_whom_it_belongs(kind: Kind) {
    let application = start(kind);
    let server = &application.server;
    let answer = server.get("/empty").expect(200);
    assert_eq!(answer.text(), r#"{"errno":0,"errmsg":"success","data":"e"}"#);
    gives_each_visitor_a_token(server);
    in_parallel(8, |number| greets_by_name(server, &format!("visitor-{number}")));
    in_parallel(40, |number| {
        let answer = server.get(&format!("/section{number}/any?of={number}")).expect(200).json();
        let expected = json!({
            "path": format!("section{number}/any"), "query": { "of": number.to_string() },
        });
        assert_eq!(answer, expected);
    });
    answers_errors_itself(server);
    if kind != Kind::Peer {
        keeps_to_its_rules(server);
    }
}

/// What `docs/sites.md` says of it.
fn keeps_to_its_rules(server: &Server) {
    let public = server.places.root().join("public");
    for name in ["build/app.js", "storage/evil.php", "other.php", ".env", ".well-known/token"] {
        let path = public.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "<?php echo 'a file';").unwrap();
    }
    let nowhere = "<title>Not Found</title>";
    check(
        server,
        vec![
            row("a hidden name", get("/a/.well")).status(404).contains(nowhere),
            row("a hidden file", get("/.env")).status(404).contains(nowhere),
            row("of a script", get("/none.php")).status(404).contains(nowhere),
            row("for everybody", get("/.well-known/token")).contains("a file"),
            row("for a year", get("/build/app.js"))
                .header("cache-control", "public, max-age=31536000, immutable"),
            row("missing", get("/build/none.js")).status(404).contains("<h1>404 Not Found</h1>"),
            row("another script", get("/other.php")).status(403),
            row("uploaded", get("/storage/evil.php")).status(403),
            row("in other case", get("/STORAGE/evil.php")).status(404),
        ],
    );
}

/// The hidden field of the form.
fn token(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"_token\" value=\"").unwrap_or_else(|| panic!("{page}"));
    rest.split_once('"').unwrap().0
}

fn gives_each_visitor_a_token(server: &Server) {
    let pages = ["Ada", "Grace"].map(|_| Visitor::of(server.address).get("/login").expect(200));
    let [one, other] = pages.map(|page| page.text());
    assert_eq!(token(&one).len(), 40);
    assert_ne!(token(&one), token(&other));
}

fn greets_by_name(server: &Server, name: &str) {
    let mut visitor = Visitor::of(server.address);
    let hello = visitor.get("/").expect(200).text();
    assert!(hello.contains("Hello stranger, this is"), "{hello}");
    let page = visitor.get("/login").expect(200).text();
    let stranger = form("/login", &format!("_token={}&name=nobody", "x".repeat(40)));
    visitor.send(stranger).expect(419);
    let body = format!("_token={}&name={name}", token(&page));
    visitor.send(form("/login", &body)).expect(302);
    for _ in 0..3 {
        let hello = visitor.get("/").expect(200).text();
        let words = format!("Hello {name}, this is http://{}", server.address);
        assert!(hello.contains(&words), "{hello}");
        assert_eq!(token(&visitor.get("/login").expect(200).text()), token(&page));
    }
}

/// Exceptions by its handler, and what is not caught by its shutdown function, which the boot
/// cannot register for a request.
fn answers_errors_itself(server: &Server) {
    for (target, status) in [("/error", 500), ("/fatal", 500), ("/nowhere", 404)] {
        let page = server.get(target).expect(status).text();
        assert!(page.contains("<!DOCTYPE html>"), "{target}: {page}");
    }
    server.log_line(&["The page that fails has failed."]);
    server.get("/empty").expect(200);
}

#[test]
fn its_configuration_passes_the_check() {
    let file = root().join("examples/laravel/tokamak.toml");
    let output = Command::new(program()).arg("check").arg("--config").arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
