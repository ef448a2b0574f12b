/// The kinds of outgoing calls that are counted for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Statements that a database executes.
    Sql,
    /// Requests to other servers over HTTP.
    Http,
}

impl CallKind {
    /// All kinds, in the order of the C shim's `SHIM_CALL_*`.
    pub const ALL: [CallKind; 2] = [CallKind::Sql, CallKind::Http];

    /// The name used in logs, metrics and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            CallKind::Sql => "sql",
            CallKind::Http => "http",
        }
    }
}

/// The calls of one kind that a request has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSum {
    /// How many.
    pub count: u32,
    /// Nanoseconds from call to return, in all. Calls of coroutines may overlap, so this may be
    /// more than the request took.
    pub nanos: u64,
}

/// The outgoing calls of a request, as its worker has reported them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// One sum for each kind, in the order of [`CallKind::ALL`].
    pub sums: [CallSum; CallKind::ALL.len()],
}

impl Calls {
    /// Adds the calls of another worker that has answered the same request (a sub-request, say).
    /// Sums saturate, because workers are not trusted.
    pub fn add(&mut self, other: &Calls) {
        for (sum, one) in self.sums.iter_mut().zip(other.sums) {
            sum.count = sum.count.saturating_add(one.count);
            sum.nanos = sum.nanos.saturating_add(one.nanos);
        }
    }

    /// The calls of one kind.
    pub fn of(&self, kind: CallKind) -> CallSum {
        self.sums[kind as usize]
    }
}
