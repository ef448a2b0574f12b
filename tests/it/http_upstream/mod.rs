//! Applications of HTTP behind the front: what they are asked, what becomes of their answers, and
//! what they may do wrong. What is the same for applications of FastCGI (addresses, balance,
//! names, processes) is tested with those.

/// An application that says exactly what a test wants said.
mod backend;
/// Connections: kept, lost, bounded.
mod connections;
/// Responses that lie.
mod hostile;
/// Applications of HTTP/2, and gRPC.
mod http2;
/// What an application is asked.
mod requests;
/// What becomes of its answers.
mod responses;
/// Applications behind TLS.
mod tls;
/// Bodies that go on while they come.
mod uploads;
/// WebSockets.
mod websocket;
mod websocket_http2;

use crate::harness::{Kind, Setup};
use backend::Backend;

/// A server that sends everything below `/app` to an application; `lines` are more lines of its
/// upstream.
fn in_front_of(backend: &Backend, lines: &str) -> Setup {
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"{}\"\n{lines}", backend.url))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
}
