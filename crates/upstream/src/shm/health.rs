//! Whether a queue can still work. A worker can write anywhere into its pool's memory, and what it
//! spoils there is not mended: requests would wait, or be refused, until the next reload.

/// Looks in a row that have to find the same, at 0.2 s each: a worker may be about to take what
/// waits, and word of its death on its way. A sound queue takes microseconds. Fewer looks would
/// renew the site of a machine that was busy for a moment; each one more makes requests wait 0.2 s
/// longer.
const LOOKS: u32 = 15;

/// What an event loop sees of its queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Requests between head and tail.
    pub backlog: u32,
    /// As many as there can be.
    pub cells: u32,
    /// One of its own is late.
    pub has_waited: bool,
    /// A worker has taken one of its own since the last look.
    pub has_moved: bool,
    /// A worker says that it is idle.
    pub is_idle: bool,
    /// A request of its own is in the hands of a worker that is not there, or that says that it is
    /// idle: it was stopped as soon as it had claimed the request.
    pub is_astray: bool,
}

/// What was found in the last looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Health {
    beside_idle: u32,
    astray: u32,
}

impl Health {
    /// A look: what is wrong, for people.
    pub fn look(&mut self, view: View) -> Option<&'static str> {
        let count = |is_so: bool, looks: u32| if is_so { looks.saturating_add(1) } else { 0 };
        // Where requests wait no longer than these looks take, there is none that is late at some
        // of them: that says nothing, unless others were taken meanwhile.
        if view.has_waited || view.has_moved {
            self.beside_idle = count(view.has_waited && view.is_idle, self.beside_idle);
        }
        self.astray = count(view.is_astray, self.astray);
        if view.backlog > view.cells {
            Some("more requests wait than there can be")
        } else if self.beside_idle >= LOOKS {
            Some("requests wait beside an idle worker")
        } else if self.astray >= LOOKS {
            Some("a request is in the hands of a worker that does not work on it")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let sound = View { backlog: 3, cells: 64, ..View::default() };
        let full = View { backlog: 64, has_waited: true, ..sound };
        let beyond = View { backlog: 65, ..sound };
        let beside = View { has_waited: true, is_idle: true, ..sound };
        let astray = View { is_astray: true, ..sound };
        let idle = View { is_idle: true, ..sound };
        let moved = View { has_moved: true, ..sound };
        for (looks, what) in [
            (vec![(sound, 100), (full, 100), (idle, 100)], None),
            (vec![(beyond, 1)], Some("more requests wait than there can be")),
            (vec![(beside, LOOKS - 1), (full, 1), (beside, LOOKS - 1)], None),
            (vec![(beside, LOOKS)], Some("requests wait beside an idle worker")),
            (
                vec![(beside, LOOKS - 1), (sound, 9), (beside, 1)],
                Some("requests wait beside an idle worker"),
            ),
            (vec![(beside, LOOKS - 1), (moved, 1), (beside, LOOKS - 1)], None),
            (vec![(astray, LOOKS - 1), (sound, 1), (astray, LOOKS - 1)], None),
            (
                vec![(astray, LOOKS)],
                Some("a request is in the hands of a worker that does not work on it"),
            ),
        ] {
            let mut health = Health::default();
            let views = looks.iter().flat_map(|(view, count)| (0..*count).map(|_| *view));
            assert_eq!(views.map(|view| health.look(view)).last().unwrap(), what, "{looks:?}");
        }
    }
}
