use std::fmt;

/// The name of one request to PHP, in the logs and in `Tokamak\Context::id()`.
///
/// The front and the worker make it of what both know: when a worker took the request, and its
/// ticket of the queue. Two requests of one machine that were taken in the same nanosecond have
/// different tickets, unless they belong to different pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    taken_at: u64,
    ticket: u32,
}

impl RequestId {
    /// Of the request with this ticket, taken at this time of [`crate::now`].
    pub fn new(taken_at: u64, ticket: u32) -> RequestId {
        RequestId { taken_at, ticket }
    }

    /// When a worker took the request, in nanoseconds of [`crate::now`].
    pub fn taken_at(self) -> u64 {
        self.taken_at
    }

    /// Its ticket of the queue.
    pub fn ticket(self) -> u32 {
        self.ticket
    }
}

/// 24 digits; a later request has a greater text.
impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:08x}", self.taken_at, self.ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_requests_have_greater_texts() {
        let ids = [(9, 7), (10, 3), (10, 4), (1 << 40, 0)];
        let texts = ids.map(|(taken_at, ticket)| RequestId::new(taken_at, ticket).to_string());
        assert!(texts.is_sorted() && texts.iter().all(|text| text.len() == 24), "{texts:?}");
        assert_eq!(texts[0], "000000000000000900000007");
    }
}
