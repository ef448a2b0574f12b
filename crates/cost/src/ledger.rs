use crate::{Phase, RequestId};

/// Where one request's time went: nanoseconds a phase.
///
/// A stamp closes a phase: the time since the last stamp is booked on it. So phases never overlap
/// and always add up to [`Ledger::total`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ledger {
    is_read: bool,
    start: u64,
    last: u64,
    spent: [u64; Phase::ALL.len()],
    request: Option<RequestId>,
}

impl Ledger {
    /// A ledger that begins at `start`, in nanoseconds of [`crate::now`].
    pub fn begin(start: u64) -> Self {
        Ledger { is_read: true, start, last: start, spent: [0; Phase::ALL.len()], request: None }
    }

    /// A ledger that will not be read.
    pub fn unread(start: u64) -> Self {
        Ledger { is_read: false, ..Ledger::begin(start) }
    }

    /// The time now; up to some milliseconds late if the ledger will not be read.
    pub fn clock(&self) -> u64 {
        if self.is_read { crate::now() } else { crate::coarse() }
    }

    /// Books the time until now on `phase`, if anybody will read that.
    pub fn mark(&mut self, phase: Phase) {
        if self.is_read {
            self.stamp(phase, crate::now());
        }
    }

    /// Books the time since the last stamp on `phase`.
    ///
    /// A time before the last stamp counts as no time passed: stamps of a worker come out of shared
    /// memory and may be anything.
    pub fn stamp(&mut self, phase: Phase, now: u64) {
        let now = now.max(self.last);
        self.spent[phase as usize] += now - self.last;
        self.last = now;
    }

    /// PHP has had the request, under this name.
    pub fn set_request(&mut self, id: RequestId) {
        self.request = Some(id);
    }

    /// The request's name; none if PHP has not had it.
    pub fn request(&self) -> Option<RequestId> {
        self.request
    }

    /// When it began, in nanoseconds of [`crate::now`].
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Nanoseconds booked on `phase`.
    pub fn spent(&self, phase: Phase) -> u64 {
        self.spent[phase as usize]
    }

    /// Nanoseconds from the begin to the last stamp.
    pub fn total(&self) -> u64 {
        self.last - self.start
    }

    /// The phases that took any time, in order.
    pub fn phases(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Phase::ALL.iter().map(|p| (p.name(), self.spent(*p))).filter(|(_, ns)| *ns > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_to_the_total() {
        let mut ledger = Ledger::begin(100);
        ledger.stamp(Phase::Head, 150);
        ledger.stamp(Phase::Queue, 170);
        ledger.stamp(Phase::Php, 400);
        ledger.stamp(Phase::Queue, 410);
        assert_eq!(ledger.spent(Phase::Queue), 30);
        assert_eq!(ledger.total(), 310);
        assert_eq!(ledger.phases().map(|(_, ns)| ns).sum::<u64>(), ledger.total());
    }

    #[test]
    fn a_stamp_from_the_past_takes_no_time() {
        let mut ledger = Ledger::begin(100);
        ledger.stamp(Phase::Head, 150);
        ledger.stamp(Phase::Php, 7);
        assert_eq!(ledger.spent(Phase::Php), 0);
        assert_eq!(ledger.total(), 50);
    }

    #[test]
    fn what_nobody_reads_is_not_booked() {
        let mut ledger = Ledger::unread(crate::now());
        ledger.mark(Phase::Route);
        assert_eq!(ledger.total(), 0);
        let mut ledger = Ledger::begin(1);
        ledger.mark(Phase::Route);
        assert!(ledger.spent(Phase::Route) > 0);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Phase::ALL.iter().map(|p| p.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Phase::ALL.len());
    }
}
