//! gRPC through the server: a client and a service of Google's library, in all kinds of calls.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Kind, Process, Server, Setup, eventually, free_address, tests};
use crate::tls::{Folder, secured_in};

const PATIENCE: Duration = Duration::from_secs(20);

/// What the messages of the client say of each kind of call.
const CALLS: [(&str, &str); 4] = [
    (
        "once",
        "once aaa hello {'x-length': '3', 'x-two-bin': b'\\x00\\xff'}\n3000005 3000000\n\
         FAILED_PRECONDITION not now\n",
    ),
    ("several", "2008890\n0 1 2 3 4 5 6 DATA_LOSS seven\n"),
    ("collect", "3000000 characters\n"),
    (
        "talk",
        "you said word 0\nyou said word 1\nyou said word 2\nyou said word 3\nyou said word 4\n\
         [] {'x-last': 'bye'} OK\n",
    ),
];

fn script(name: &str) -> String {
    tests().join("it/http_upstream/http2").join(name).display().to_string()
}

/// A service at this address; `tls` has its certificate and its key.
fn service(folder: &Folder, address: SocketAddr, tls: &[&str]) -> Process {
    let log = folder.path("service.log");
    let mut arguments = vec![script("service.py"), address.to_string()];
    arguments.extend(tls.iter().map(|file| folder.path(file).display().to_string()));
    let mut process = Process::start(Path::new("/usr/bin/python3"), &arguments, &[], &log);
    eventually(PATIENCE, || {
        assert!(process.ended().is_none(), "{:?}", std::fs::read_to_string(&log));
        TcpStream::connect(address).ok().map(drop)
    })
    .expect("the service listens");
    process
}

/// The lines of a site that send calls to the service.
const ROUTE: &str = "[[site.route]]\npath = \"/test.Test\"\nupstream = \"app\"";

/// What the client says of such calls.
fn client(address: SocketAddr, kind: &str, authority: Option<&Path>) -> String {
    let mut command = Command::new("/usr/bin/python3");
    command.args([script("client.py"), address.to_string(), kind.to_owned()]).args(authority);
    let output = command.output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    said
}

fn before(url: &str, lines: &str) -> Setup {
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"{url}\"\nprotocol = \"http2\"\n{lines}"))
}

fn calls(server: &Server) {
    for (kind, expected) in CALLS {
        assert_eq!(client(server.address, kind, None), expected, "{kind}");
    }
}

#[test]
fn all_kinds_of_calls_pass() {
    let (folder, address) = (Folder::new(), free_address());
    let _service = service(&folder, address, &[]);
    let server = before(&format!("http://{address}"), "").site_line(ROUTE).start();
    calls(&server);
    assert_eq!(client(server.address, "gone", None), "begun\ngone\n");
}

#[test]
fn over_tls_on_both_sides() {
    let (folder, address) = (Folder::new(), free_address());
    folder.certificate("authority", &["authority"]);
    let extensions = "basicConstraints = CA:FALSE\nsubjectAltName = DNS:app.test\n";
    folder.signed("app", "/CN=app", "authority", extensions);
    folder.certificate("localhost", &["localhost"]);
    let _service = service(&folder, address, &["app.pem", "app.key"]);
    let trust =
        format!("tls_ca = \"{}\"\ntls_name = \"app.test\"", folder.path("authority.pem").display());
    let setup = before(&format!("https://{address}"), &trust);
    let secured = secured_in(folder, setup, &[], &[ROUTE]);
    let authority = secured.folder.path("localhost.pem");
    for (kind, expected) in CALLS {
        assert_eq!(client(secured.address, kind, Some(&authority)), expected, "{kind}");
    }
}

#[test]
fn who_is_not_there_is_unavailable() {
    let server = before(&format!("http://{}", free_address()), "").site_line(ROUTE).start();
    assert_eq!(client(server.address, "unreachable", None), "UNAVAILABLE\n");
    server.log_line(&["status=502", "cannot be reached"]);
}
