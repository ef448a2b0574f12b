/// What a request has called that others answer, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Statements that a database executes.
    Sql,
    /// Requests to other servers over HTTP.
    Http,
}

impl CallKind {
    /// All of them, in the order of `shim.h`.
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

/// The calls that a request has made, by its worker's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Of each kind, as [`CallKind::ALL`].
    pub sums: [CallSum; CallKind::ALL.len()],
}

impl Calls {
    /// Adds those that another answer to the same request has made. Numbers of workers may be
    /// anything.
    pub fn add(&mut self, other: &Calls) {
        for (sum, one) in self.sums.iter_mut().zip(other.sums) {
            sum.count = sum.count.saturating_add(one.count);
            sum.nanos = sum.nanos.saturating_add(one.nanos);
        }
    }

    /// Those of a kind.
    pub fn of(&self, kind: CallKind) -> CallSum {
        self.sums[kind as usize]
    }
}
