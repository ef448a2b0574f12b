use crate::{Calls, Phase, RequestId};

/// Steps that are kept of a request at most. A usual request has about seven; one with scripts at
/// all stages and an application that is asked twice some twenty. Ten times more would be 15 KiB
/// for each request whose steps are kept.
const MOST_STEPS: usize = 64;

/// One step on a request's way, with the times at which it began and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The phase that it is part of. A phase may have several steps.
    pub phase: Phase,
    /// In nanoseconds of [`crate::now`].
    pub begin: u64,
    /// In nanoseconds of [`crate::now`].
    pub end: u64,
}

/// The steps of a request, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Steps {
    kept: Vec<Step>,
    left_out: u32,
}

impl Steps {
    // The steps of few requests are kept.
    #[cold]
    fn add(&mut self, step: Step) {
        let is_full = self.kept.len() == MOST_STEPS;
        match self.kept.last_mut() {
            _ if step.begin == step.end => {}
            Some(last) if last.phase == step.phase && last.end == step.begin => last.end = step.end,
            _ if is_full => self.left_out += 1,
            _ => self.kept.push(step),
        }
    }
}

/// Where one request's time went: nanoseconds a phase.
///
/// A stamp closes a phase: the time since the last stamp is booked on it. So phases never overlap
/// and always add up to [`Ledger::total`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    is_read: bool,
    start: u64,
    last: u64,
    spent: [u64; Phase::ALL.len()],
    request: Option<RequestId>,
    /// Kept for those who want more than sums.
    steps: Option<Box<Steps>>,
    calls: Option<Calls>,
}

impl Ledger {
    /// A ledger that begins at `start`, in nanoseconds of [`crate::now`].
    #[inline]
    pub fn begin(start: u64) -> Self {
        Ledger {
            is_read: true,
            start,
            last: start,
            spent: [0; Phase::ALL.len()],
            request: None,
            steps: None,
            calls: None,
        }
    }

    /// A ledger that will not be read. Nothing is booked in it.
    #[inline]
    pub fn unread(start: u64) -> Self {
        Ledger { is_read: false, ..Ledger::begin(start) }
    }

    /// Keeps the steps from now on, for [`Ledger::steps`].
    #[cold]
    pub fn keep_steps(&mut self) {
        self.steps = Some(Box::default());
    }

    /// The time now; up to some milliseconds late if the ledger will not be read.
    #[inline]
    pub fn clock(&self) -> u64 {
        if self.is_read { crate::now() } else { crate::coarse() }
    }

    /// Books the time until now on `phase`, if anybody will read that.
    #[inline]
    pub fn mark(&mut self, phase: Phase) {
        if self.is_read {
            self.stamp(phase, crate::now());
        }
    }

    /// Books the time since the last stamp on `phase`.
    ///
    /// A time before the last stamp counts as no time passed: stamps of a worker come out of shared
    /// memory and may be anything.
    #[inline]
    pub fn stamp(&mut self, phase: Phase, now: u64) {
        if !self.is_read {
            return;
        }
        let now = now.max(self.last);
        if let Some(steps) = &mut self.steps {
            steps.add(Step { phase, begin: self.last, end: now });
        }
        self.spent[phase as usize] += now - self.last;
        self.last = now;
    }

    /// PHP has had the request, under this name.
    #[inline]
    pub fn set_request(&mut self, id: RequestId) {
        self.request = Some(id);
    }

    /// The request's name; none if PHP has not had it.
    pub fn request(&self) -> Option<RequestId> {
        self.request
    }

    /// What PHP has called for it; calls are counted. If PHP is asked again, as after an
    /// authorizer, they add up as the phases do.
    pub fn add_calls(&mut self, calls: &Calls) {
        self.calls.get_or_insert_default().add(calls);
    }

    /// What PHP has called for it; none if calls are not counted, or PHP has not had it.
    pub fn calls(&self) -> Option<&Calls> {
        self.calls.as_ref()
    }

    /// Whether anybody will read it, so that its phases are booked.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// When it began, in nanoseconds of [`crate::now`].
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Nanoseconds booked on `phase`.
    pub fn spent(&self, phase: Phase) -> u64 {
        self.spent[phase as usize]
    }

    /// The steps that took any time, in their order, if they are kept; and how many more there
    /// were.
    pub fn steps(&self) -> (&[Step], u32) {
        self.steps.as_ref().map_or((&[], 0), |steps| (&steps.kept, steps.left_out))
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
    use crate::CallSum;

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
    fn a_ledger_without_reader_books_nothing() {
        let mut ledger = Ledger::unread(crate::now());
        ledger.mark(Phase::Route);
        ledger.stamp(Phase::Php, crate::now() + 1);
        assert_eq!(ledger.total(), 0);
        let mut ledger = Ledger::begin(1);
        ledger.mark(Phase::Route);
        assert!(ledger.spent(Phase::Route) > 0);
    }

    #[test]
    fn calls_add_up() {
        let mut ledger = Ledger::begin(1);
        assert_eq!(ledger.calls(), None);
        for (count, nanos) in [(3, 70), (4, u64::MAX)] {
            let sums = [CallSum::default(), CallSum { count, nanos }];
            ledger.add_calls(&Calls { sums });
        }
        let sums = [CallSum::default(), CallSum { count: 7, nanos: u64::MAX }];
        assert_eq!(ledger.calls(), Some(&Calls { sums }));
    }

    #[test]
    fn steps_are_in_the_order_of_their_times() {
        let mut ledger = Ledger::begin(100);
        ledger.keep_steps();
        for (phase, now) in [
            (Phase::Head, 150),
            (Phase::Script, 160),
            (Phase::Script, 170),
            (Phase::Route, 170),
            (Phase::Body, 200),
            (Phase::Script, 210),
        ] {
            ledger.stamp(phase, now);
        }
        let step = |phase, begin, end| Step { phase, begin, end };
        let expected = [
            step(Phase::Head, 100, 150),
            step(Phase::Script, 150, 170),
            step(Phase::Body, 170, 200),
            step(Phase::Script, 200, 210),
        ];
        assert_eq!(ledger.steps(), (&expected[..], 0));
        assert_eq!(Ledger::begin(1).steps(), (&[][..], 0));
    }

    #[test]
    fn steps_are_bounded() {
        let mut ledger = Ledger::begin(0);
        ledger.keep_steps();
        for now in 1..=1000 {
            let phase = if now % 2 == 0 { Phase::Script } else { Phase::Php };
            ledger.stamp(phase, now);
        }
        let (steps, left_out) = ledger.steps();
        assert_eq!((steps.len(), left_out), (MOST_STEPS, 1000 - MOST_STEPS as u32));
        assert_eq!(ledger.total(), 1000);
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Phase::ALL.iter().map(|p| p.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Phase::ALL.len());
    }
}
