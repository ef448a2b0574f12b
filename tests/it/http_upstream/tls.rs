//! Applications behind TLS: a real nginx, which passes on to an application of the test.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::backend::{Backend, text};
use crate::harness::{
    Kind, Process, Server, Setup, eventually, free_address, get, is_root, numbered, post,
};
use crate::tls::Folder;

const PATIENCE: Duration = Duration::from_secs(20);

/// An authority, an application with a certificate for `app.test`, and a certificate for us.
fn certificates() -> Folder {
    let folder = Folder::new();
    folder.certificate("authority", &["authority"]);
    folder.certificate("stranger", &["stranger"]);
    let extensions = "basicConstraints = CA:FALSE\nsubjectAltName = DNS:app.test\n";
    folder.signed("app", "/CN=app", "authority", extensions);
    folder.signed("front", "/CN=front", "authority", "basicConstraints = CA:FALSE\n");
    folder
}

/// nginx with TLS before a backend; `lines` are more lines of its server.
fn nginx(folder: &Folder, backend: SocketAddr, lines: &str) -> (Process, SocketAddr) {
    let address = free_address();
    let top = folder.path("").display().to_string();
    let user = if is_root() { "user root;" } else { "" };
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {top}/{kind};"))
        .join("\n");
    let text = format!(
        "daemon off; {user} pid {top}/pid; worker_processes 1; events {{ }}\n\
         http {{ access_log off; {temporary} client_max_body_size 100m;\n\
         server {{ listen {address} ssl; {lines}\n\
         ssl_certificate {top}/app.pem; ssl_certificate_key {top}/app.key;\n\
         ssl_client_certificate {top}/authority.pem;\n\
         location / {{ proxy_pass http://{backend}; }}\n\
         location /app/session {{ return 200 \n\
         '$ssl_server_name $ssl_client_s_dn $ssl_protocol $connection_requests\\n'; }} }} }}\n"
    );
    let file = folder.path("nginx.conf");
    std::fs::write(&file, text).unwrap();
    let arguments = ["-p", &top, "-c", &file.display().to_string(), "-e", "stderr"];
    let log = folder.path("nginx.log");
    let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    let mut process = Process::start(Path::new("/usr/sbin/nginx"), &arguments, &[], &log);
    eventually(PATIENCE, || {
        let log = || std::fs::read_to_string(&log);
        assert!(process.ended().is_none(), "{:?}", log());
        TcpStream::connect(address).ok().map(drop)
    })
    .expect("nginx listens");
    (process, address)
}

/// A server before an application at this address; `lines` are more lines of its upstream.
fn before(address: SocketAddr, folder: &Folder, lines: &str) -> Server {
    let lines = lines.replace("$FOLDER", folder.path("").to_str().unwrap());
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"https://{address}\"\n{lines}"))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
        .line("loops = 1")
        .start()
}

const TRUST: &str = "tls_ca = \"$FOLDER/authority.pem\"\ntls_name = \"app.test\"";

#[test]
fn it_is_asked_as_one_in_the_clear() {
    let folder = certificates();
    let large = numbered(3_000_000);
    let backend = Backend::answering({
        let large = large.clone();
        move |asked| match asked.target() {
            "/app/large" => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", large.len());
                [head.as_bytes(), &large].concat()
            }
            _ => text(&format!("{} {}", asked.target(), asked.body.len())),
        }
    });
    let (_nginx, address) =
        nginx(&folder, backend.address, "ssl_verify_client on; ssl_protocols TLSv1.3;");
    let shown = "tls_certificate = \"$FOLDER/front.pem\"\ntls_key = \"$FOLDER/front.key\"";
    let server = before(address, &folder, &format!("{TRUST}\n{shown}"));
    // The second one comes over the connection of the first.
    assert_eq!(server.text("/app/session"), "app.test CN=front TLSv1.3 1\n");
    assert_eq!(server.text("/app/session"), "app.test CN=front TLSv1.3 2\n");
    assert_eq!(server.text("/app/a?b=c"), "/app/a?b=c 0");
    let upload = server.send(&post("/app/up", "text/x", large.clone())).expect(200);
    assert_eq!(upload.text(), "/app/up 3000000");
    assert!(server.get("/app/large").expect(200).body == large);
    assert_eq!(server.send(&get("/app/a").header("Connection", "close")).text(), "/app/a 0");
}

#[test]
fn who_is_not_to_be_trusted_is_not_asked() {
    let folder = certificates();
    let backend = Backend::answering(|asked| text(asked.target()));
    let (_nginx, address) = nginx(&folder, backend.address, "");
    let name = "tls_name = \"app.test\"";
    for (lines, reason) in [
        (name.to_owned(), "UnknownIssuer"),
        (format!("{name}\ntls_ca = \"$FOLDER/stranger.pem\""), "UnknownIssuer"),
        ("tls_ca = \"$FOLDER/authority.pem\"".to_owned(), "not valid for name"),
        (TRUST.replace("app.test", "other.test"), "not valid for name"),
    ] {
        let server = before(address, &folder, &lines);
        server.get("/app").expect(502);
        server.log_line(&["status=502", "cannot be reached", reason]);
    }
    // It speaks no TLS.
    let server = before(backend.address, &folder, TRUST);
    server.get("/app").expect(502);
    server.log_line(&["status=502", "cannot be reached"]);
    assert_eq!(before(address, &folder, TRUST).text("/app/b"), "/app/b");
}

#[test]
fn who_asks_for_a_certificate_that_is_not_shown_says_so_itself() {
    let folder = certificates();
    let backend = Backend::answering(|asked| text(asked.target()));
    let (_nginx, address) = nginx(&folder, backend.address, "ssl_verify_client on;");
    before(address, &folder, TRUST).get("/app").expect(400);
}

#[test]
fn connections_that_it_closes_cost_no_request() {
    let folder = certificates();
    let backend = Backend::answering(|asked| text(asked.target()));
    for lines in [
        "keepalive_requests 2;",
        "keepalive_timeout 0;",
        "ssl_protocols TLSv1.3; keepalive_requests 2;",
    ] {
        let (_nginx, address) = nginx(&folder, backend.address, lines);
        let server = before(address, &folder, TRUST);
        for number in 0..7 {
            let target = format!("/app/{number}");
            assert_eq!(server.text(&target), target, "{lines}");
        }
    }
}
