//! Lua in the server: the same scripts under lighttpd's mod_magnet and under Tokamak, and what only
//! Tokamak does.

/// What scripts may not do, and what becomes of it.
mod bounds;
/// Calls of scripts to other services, over HTTP and to Redis.
mod calls;
/// Scripts of the kind that lighttpd documents, on both servers.
mod documented;
/// Who is being served.
mod present;
/// The variables that applications get.
mod server_vars;
/// Both servers, with the same scripts.
mod servers;
