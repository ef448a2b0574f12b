//! Behind a balancer: what is believed of proxies and what of nobody, PROXY headers, names of
//! requests, and a stop that balancers notice in time.

mod apache;
mod cached;
mod deployed;
mod drain;
mod forwarded;
mod in_front;
mod layered;
mod names;
mod proxy_protocol;
pub mod recipes;

use serde_json::Value;

use crate::harness::{Request, Server, get};

/// The variables that PHP gets with a request.
#[track_caller]
fn server_vars(server: &Server, request: &Request) -> Value {
    server.send(request).expect(200).json()
}

/// Some of these variables, with blanks between them; `-` for those that are missing.
fn some(vars: &Value, names: &[&str]) -> String {
    let one = |name: &&str| vars[*name].as_str().unwrap_or("-").to_owned();
    names.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// What says who asks, by which scheme and under which name.
const ORIGIN: [&str; 6] =
    ["REMOTE_ADDR", "REQUEST_SCHEME", "HTTPS", "SERVER_PORT", "HTTP_HOST", "SERVER_NAME"];

/// A request for `$_SERVER` with these header fields.
fn with(fields: &[(&str, &str)]) -> Request {
    let request = get("/server.php");
    fields.iter().fold(request, |request, (name, value)| request.header(name, value))
}
