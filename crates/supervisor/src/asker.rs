//! Who wants something of the supervisor.

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A client of the control socket, by its number.
    Socket(u64),
    /// A client of the admin listener.
    Admin {
        /// The generation whose front it is connected to.
        generation: u32,
        /// The number of its question.
        question: u32,
    },
}
