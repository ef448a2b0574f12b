//! Applications of HTTP/2: what they are asked, how they share connections, and what they may do
//! wrong.

mod backend;
/// Connections: shared, lost, bounded.
mod connections;
/// Requests and responses.
mod exchanges;
/// gRPC, with clients and a service of another make.
mod grpc;
/// Frames that lie.
mod hostile;

use crate::harness::{Kind, Setup};

/// A server that sends everything below `/app` to an application of HTTP/2; `lines` are more lines
/// of its upstream.
fn in_front_of(url: &str, lines: &str) -> Setup {
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"{url}\"\nprotocol = \"http2\"\n{lines}"))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
}
