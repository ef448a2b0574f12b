//! The side of the clients: HTTP connections, routing, files, responses; and web servers that speak
//! FastCGI. Without it nobody could reach a pool, and slow clients would hold workers.

pub mod access;
mod application;
mod body;
mod cache;
mod caller;
mod cgi;
pub mod clock;
mod connection;
mod event_loop;
pub mod failure;
mod fastcgi;
pub mod files;
mod head;
mod hosts;
mod links;
mod lua;
pub mod pages;
mod php;
mod pools;
mod responder;
mod response;
pub mod route;
pub mod screen;
mod server;
mod service;

pub use pools::PoolLink;
pub use server::{Front, Start};
pub use tokamak_cache::Purge;
pub use tokamak_upstream::shm::{Alarm, Death, Want};
