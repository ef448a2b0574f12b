//! Async mode with real services, real libraries and real applications.

/// The example of a site that asks a database.
mod cms;
/// Libraries that talk to services, each used by many requests of one worker at once.
mod libraries;
/// All that waits at once, while everything that can go away does.
mod mixed;
/// A Symfony application, whose kernel belongs to one request at a time.
mod symfony;
