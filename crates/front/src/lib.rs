//! The side of the clients: HTTP connections, routing, files and responses, and web servers that
//! speak FastCGI. Without it no client could reach a pool, and slow clients would hold workers.
//!
//! The modules, each of which uses only those below it:
//!
//! ```text
//! front                    the handle: start, drain, purge
//! event_loop               accepts, serves, ticks
//! http    fastcgi_server   what clients and web servers speak
//! request                  the pipeline, and the stages of scripts between its phases
//! backend                  workers and FastCGI applications as those who answer
//! context                  what the requests of an event loop share
//! site                     a site, with all that was made of its configuration
//! caller  cache  lua  fpm  who asks; kept responses; scripts; pools of php-fpm's kind
//! scoreboard  response  route  balancer  export  log  client  pools  push  trace  request_id  timing
//! clock  counters  failure
//! ```

mod admin;
mod backend;
mod balancer;
mod cache;
mod caller;
mod client;
mod clock;
mod context;
mod counters;
mod event_loop;
mod export;
mod failure;
mod fastcgi_server;
mod fpm;
mod front;
mod header_list;
mod http;
mod last_errors;
mod log;
mod login;
mod lua;
mod pools;
mod push;
mod request;
mod request_id;
mod request_summary;
mod response;
mod route;
mod scoreboard;
mod site;
mod slowest;
mod temp_dir;
mod throttle;
mod timing;
mod tls;
mod trace;
mod websocket;

pub use admin::{Access, AdminStart, Answer, Reply};
pub use client::forwarded::chain;
pub use front::{Front, QuicStart, Start};
pub use http::h1::screen;
pub use http::h2::Meter;
pub use http::h3::Control;
pub use http::proxy_protocol::{
    Decoder as ProxyHeaderDecoder, Ends as ProxyEnds, Malformed as MalformedProxyHeader,
    ProxyHeader as ProxyTold,
};
pub use log::{LostLines, lost_lines, server as warn};
pub use pools::PoolLink;
pub use response::compression::accept as accept_encoding;
pub use site::rules::book::{RuleBook, Ruling};
pub use temp_dir::verify as verify_temp_dir;
pub use tls::WantName;
pub use tokamak_cache::Purge;
pub use tokamak_upstream::shm::{Alarm, Death, Want};
