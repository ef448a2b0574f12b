//! Requests from their arrival to their end, and what must hold of each.

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was answered.
    Answered,
    /// The queue was full, or it had waited too long: nothing has run.
    Refused,
    /// Its worker died, or wrote nonsense.
    Failed,
    /// The front died, and the connection with it.
    Lost,
    /// The client has left.
    Left,
}

/// Who has taken a request, and when.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    pub pid: u32,
    pub instance: u32,
    pub at: u64,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub site: usize,
    pub front: u32,
    pub event_loop: usize,
    /// It is one of a connection that has many.
    pub is_of_flow: bool,
    /// It may be tried once more.
    pub is_get: bool,
    pub tries: u32,
    /// How often a worker has begun it.
    pub runs: u32,
    pub arrived: u64,
    /// When it was put into the queue, and into which.
    pub queued: u64,
    pub key: u64,
    /// Which worker has taken it, and when.
    pub taken: Option<Taken>,
    /// When the front heard that this worker is dead.
    pub orphaned: Option<u64>,
    /// The client leaves then.
    pub leaves: u64,
    pub end: Option<End>,
}
