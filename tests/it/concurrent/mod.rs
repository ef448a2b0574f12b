//! Async mode with real services, real libraries and real applications.

/// The example of a site that asks a database.
mod cms;
/// A request that ends its worker.
mod ended;
/// Clients that leave, in each phase of their request.
mod left_clients;
/// Libraries that talk to services, each used by many requests of one worker at once.
mod libraries;
/// All that waits at once, while everything that can go away does.
mod mixed;
/// SNMP, which knows one list of sessions.
mod snmp;
/// Requests that nothing resumes, at a reload and at the server's end.
mod stuck;
/// A Symfony application, whose kernel belongs to one request at a time.
mod symfony;
/// Uploads beside each other.
mod uploads;
