//! Async mode with real services, real libraries and real applications.

/// Libraries that talk to services, each used by many requests of one worker at once.
mod libraries;
/// All that waits at once, while everything that can go away does.
mod mixed;
