//! The variables that applications get of a request that scripts have changed, in every mode.

use std::fs;

use tempfile::TempDir;

use crate::harness::{Kind, Server, Setup, get};

/// PHP behind a script, which stays as long as its folder.
fn behind(kind: Kind, script: &str) -> (Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("change.lua");
    fs::write(&path, script).unwrap();
    let server =
        Setup::new(kind).site_line(&format!("lua_raw_url = [\"{}\"]", path.display())).start();
    (server, folder)
}

fn server_vars(server: &Server) -> serde_json::Value {
    serde_json::from_str(
        &server.send(&get("/server.php").header("Host", "here.test")).expect(200).text(),
    )
    .unwrap()
}

fn changed_attributes(kind: Kind) {
    let script = "local a = lighty.r.req_attr \
                  a['request.remote-addr'] = '192.0.2.7' a['uri.scheme'] = 'https' \
                  a['uri.authority'] = 'Public.test:81'";
    let (server, _folder) = behind(kind, script);
    let vars = server_vars(&server);
    let expected = [
        ("REMOTE_ADDR", "192.0.2.7"),
        ("REQUEST_SCHEME", "https"),
        ("HTTPS", "on"),
        ("SERVER_NAME", "public.test"),
        ("HTTP_HOST", "here.test"),
    ];
    for (name, value) in expected {
        assert_eq!(vars[name], value, "{name}");
    }
}

fn variables(kind: Kind) {
    let script = "local r = lighty.r r.req_attr['uri.scheme'] = 'https' \
                  r.req_env['REQUEST_SCHEME'] = 'gopher' r.req_env['APP_STAGE'] = r.req_env['HTTPS']";
    let (server, _folder) = behind(kind, script);
    let vars = server_vars(&server);
    assert_eq!((&vars["REQUEST_SCHEME"], &vars["APP_STAGE"]), (&"gopher".into(), &"on".into()));
}

#[test]
fn attributes_reach_workers() {
    changed_attributes(Kind::Classic);
}

#[test]
fn attributes_reach_fastcgi() {
    changed_attributes(Kind::Fastcgi);
}

#[test]
fn variables_reach_workers() {
    variables(Kind::Classic);
}

#[test]
fn variables_reach_fastcgi() {
    variables(Kind::Fastcgi);
}
