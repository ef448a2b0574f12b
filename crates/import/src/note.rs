//! What was not translated, line by line.

use std::fmt;

use crate::source::Place;

/// What a note says of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The line was left out.
    Left,
    /// The line was left out, and what it guards is refused instead.
    Refused,
    /// The line was translated, and holds for more than before.
    Differs,
}

/// A line that was not translated as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where it stands.
    pub place: Place,
    /// What became of it.
    pub kind: Kind,
    /// The line, shortened.
    pub line: String,
    /// Why, and what to write instead if that is known.
    pub reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Left => "left out",
            Kind::Refused => "REFUSED",
            Kind::Differs => "differs",
        };
        write!(out, "{}: {kind}: ", self.place)?;
        if !self.line.is_empty() {
            write!(out, "`{}`: ", self.line)?;
        }
        out.write_str(&self.reason)
    }
}

/// Most characters of a line that a note repeats.
const LONGEST: usize = 120;

/// The notes of an import, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Notes(Vec<Note>);

impl Notes {
    /// Notes that a line was left out.
    pub(crate) fn left(&mut self, place: &Place, line: &str, reason: impl Into<String>) {
        self.add(Kind::Left, place, line, reason.into());
    }

    /// Notes that what a line guards is refused.
    pub(crate) fn refused(&mut self, place: &Place, line: &str, reason: impl Into<String>) {
        self.add(Kind::Refused, place, line, reason.into());
    }

    /// Notes that a line holds for more than before.
    pub(crate) fn differs(&mut self, place: &Place, line: &str, reason: impl Into<String>) {
        self.add(Kind::Differs, place, line, reason.into());
    }

    /// The status by which a rule refuses what another server refuses by this one. Notes where
    /// clients may tell them apart: search engines come back after a 503.
    pub(crate) fn refusal(&mut self, place: &Place, line: &str, status: u16) -> u16 {
        // docs/import.md says that these stand for each other; 444 closes the connection.
        const ALIKE: [u16; 6] = [401, 403, 404, 405, 410, 444];
        let own = if matches!(status, 404 | 410) { status } else { 403 };
        if !ALIKE.contains(&status) {
            self.differs(place, line, format!("the status is {own}"));
        }
        own
    }

    fn add(&mut self, kind: Kind, place: &Place, line: &str, reason: String) {
        // Control characters of the file could forge lines of the comment, and move a cursor.
        let visible = |text: &str| -> String {
            let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
            clean.take(LONGEST).collect()
        };
        let file = place.file.chars().map(|c| if c.is_control() { '?' } else { c });
        let place = Place { file: file.collect::<String>().into(), line: place.line };
        let reason = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let note = Note { place, kind, line: visible(line), reason };
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// All notes, in the order of their places.
    pub(crate) fn into_sorted(mut self) -> Vec<Note> {
        self.0.sort_by(|one, other| one.place.cmp(&other.place));
        self.0
    }
}
