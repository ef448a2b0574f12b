//! Apache in front, over HTTP/2 (mod_proxy_http2). It keeps its connections, so that its next
//! request may meet the end of one.

use std::fmt::Write;
use std::fs;
use std::thread;
use std::time::Duration;

use super::in_front::start;
use crate::harness::{Connection, Kind, free_address, get, installed, is_root};
use crate::tls::secured;

/// Ways through Apache, each with connections of its own.
const WAYS: u32 = 12;

/// Requests of a way.
const REQUESTS: u32 = 4;

/// The time after which the server ends an idle connection. It looks five times a second. Longer
/// than a busy machine takes between Apache's connecting and its first request there: a connection
/// that has had none is idle, too.
const IDLE: Duration = Duration::from_millis(1500);

/// By how much the pause between two requests differs from one way to the next.
const STEP: Duration = Duration::from_millis(40);

#[test]
fn no_request_is_lost_when_idle_connections_end() {
    let line = format!("timeouts.idle = \"{}ms\"", IDLE.as_millis());
    let secured = secured(Kind::Classic, &[&line], &[]);
    let (server, at) = (&secured.server, free_address());
    let top = server.places.top().display();
    let mut text = ["mpm_event", "authz_core", "proxy", "http2", "proxy_http2", "ssl"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let user = if is_root() { "User www-data\nGroup www-data\n" } else { "" };
    write!(
        text,
        "ServerRoot \"{top}\"\nPidFile \"{top}/apache.pid\"\nDefaultRuntimeDir \"{top}\"\n\
         ErrorLog \"{top}/apache.log\"\nServerName localhost\nListen {at}\n{user}StartServers 1\n\
         ServerLimit 1\nKeepAliveTimeout 60\nSSLProxyEngine on\nSSLProxyVerify none\n\
         SSLProxyCheckPeerName off\n"
    )
    .unwrap();
    for way in 0..WAYS {
        let origin = match way % 2 {
            0 => format!("h2c://{}", server.address),
            _ => format!("h2://{}", secured.address),
        };
        writeln!(text, "ProxyPass /{way}/ {origin}/{way}/").unwrap();
        let folder = server.places.root().join(way.to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("file.txt"), "here").unwrap();
    }
    let file = server.places.top().join("apache.conf");
    fs::write(&file, text).unwrap();
    let program = installed("apache2").expect("apache2: run scripts/setup test");
    let arguments = ["-f", file.to_str().unwrap(), "-DFOREGROUND"];
    let _apache = start(&program, &arguments, server, at);
    let clients: Vec<_> = (0..WAYS)
        .map(|way| {
            thread::spawn(move || {
                let mut connection = Connection::open(at);
                for nth in 0..REQUESTS {
                    if nth > 0 {
                        thread::sleep(IDLE - STEP + way * STEP);
                    }
                    let response = connection.exchange(&get(&format!("/{way}/file.txt")));
                    assert_eq!(response.expect(200).text(), "here");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}
