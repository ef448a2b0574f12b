//! FastCGI applications behind the front. What PHP sees through php-fpm is tested with everything
//! else about PHP, as one more kind of server; here are the other applications, the connections,
//! and what a peer may do wrong.

/// Real applications in several languages.
mod applications;
/// A peer that says exactly what a test wants said.
pub mod backend;
/// Several addresses.
mod balance;
/// Addresses that come and go while the server runs.
mod changes;
/// Connections: kept, shared, bounded, lost.
mod connections;
/// php-fpm that comes and goes.
mod fpm;
/// Records and responses that lie.
mod hostile;
/// Several requests on one connection.
mod multiplex;
/// Addresses behind names.
mod names;
/// php-fpm whose processes end now and then.
mod recycling;
/// Headers and files that the application has sent.
mod responses;
/// Applications that allow requests, or filter files.
mod roles;
/// Applications that the server starts.
mod spawn;
/// Which libraries work, as the table of the docs says.
mod works_with;

use crate::harness::{Kind, Setup};
use backend::Backend;

/// A server that sends everything below `/app` to a backend; `lines` are more lines of its
/// upstream. The backend is not asked whether it takes several requests on a connection, unless
/// they say so: it would count that connection, too.
pub fn in_front_of(backend: &Backend, lines: &str) -> Setup {
    let never = if lines.contains("multiplex") { "" } else { "\nmultiplex = false" };
    let lines = &format!("{lines}{never}");
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = \"{}\"\n{lines}", backend.address))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
}
