//! What the comparison found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use super::requests::{Asked, FILES};
use super::{Invented, Noted};
use crate::harness::Response;

/// What of an answer is compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    pub status: u16,
    pub location: Option<String>,
    /// Of a success; of a refusal only a document, as error pages may be.
    pub body: Option<String>,
    /// What caches are told, the media type, and the fields that the configuration adds.
    pub fields: Vec<String>,
    /// The file that answered.
    pub file: Option<String>,
}

impl Reply {
    pub(super) fn of(response: &Response) -> Reply {
        let status = response.status();
        let location = response.header("location").map(|location| {
            // nginx and Apache write the whole URL where Tokamak writes the path.
            let own = location.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
            match own {
                Some((host, path)) if host.starts_with("site.") => format!("/{path}"),
                _ => location.to_owned(),
            }
        });
        let text = response.text();
        let file = text
            .strip_prefix("FILE=")
            .and_then(|rest| rest.lines().next())
            .or(Some(&*text).filter(|text| FILES.contains(text)))
            .map(str::to_owned);
        let body = (status < 300 || file.is_some()).then_some(text);
        Reply { status, location, body, fields: fields(response), file }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.status >= 400
    }

    /// Whether a file is sent as it is.
    pub(super) fn is_document(&self) -> bool {
        self.file.is_some() && self.file == self.body
    }

    /// A field's values.
    pub(super) fn field<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.fields.iter().filter_map(move |it| it.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The lines of a script's page that do not begin with any of these.
    pub(super) fn without(&self, names: &[&str]) -> Option<Vec<&str>> {
        let lines = self.body.as_deref()?.lines();
        Some(lines.filter(|line| !names.iter().any(|name| line.starts_with(name))).collect())
    }

    /// Whether caches that many share may keep it.
    fn is_shared(&self) -> bool {
        let kept = |word: &str| word == "public" || word.starts_with("s-maxage");
        self.field("cache-control").any(kept)
    }
}

/// The fields that are compared. Of what is refused only that it is refused.
fn fields(response: &Response) -> Vec<String> {
    if response.status() >= 400 {
        return Vec::new();
    }
    let is_told = |name: &str| {
        matches!(name, "cache-control" | "content-type")
            || (name.starts_with("x-") && name != "x-powered-by")
    };
    let fields = response.head.headers.iter();
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value));
    let mut fields: Vec<String> = fields
        .filter(|(name, _)| is_told(name))
        .flat_map(|(name, value)| {
            let value = match &*name {
                // Without the character set.
                "content-type" => value.split(';').next().unwrap_or_default(),
                _ => value,
            };
            let words = value.split(',').map(|word| format!("{name}: {}", word.trim()));
            words.collect::<Vec<_>>()
        })
        .collect();
    // Redirects have pages of the servers' own.
    fields.retain(|it| response.status() < 300 || !it.starts_with("content-type"));
    fields.sort();
    fields
}

/// How two answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Tokamak serves what the other server refuses, or another file than it does.
    Opened,
    /// Caches may keep for all what was served for a password.
    Shared,
    /// The entrance answers where nothing is found, or where a folder has no index file.
    Entrance,
    /// Tokamak refuses what the other server serves.
    Closed,
    /// Both refuse, with different statuses or pages.
    Refused,
    /// Both serve something else.
    Other,
    /// Only the fields differ.
    Fields,
}

impl Kind {
    fn of(pair: &Pair) -> Option<Kind> {
        let Pair { asked, theirs, ours, .. } = pair;
        if theirs == ours {
            return None;
        }
        let is_missing = match theirs.status {
            404 | 405 => true,
            403 => asked.path().ends_with('/'),
            _ => false,
        };
        Some(match (theirs.is_refused(), ours.is_refused()) {
            (true, false) if is_missing && pair.is_entrance() => Kind::Entrance,
            (true, false) => Kind::Opened,
            (false, false) if ours.file != theirs.file && !pair.is_entrance() => Kind::Opened,
            (false, true) => Kind::Closed,
            (true, true) => Kind::Refused,
            _ if asked.has_password && ours.is_shared() && !theirs.is_shared() => Kind::Shared,
            _ if theirs.fields != ours.fields && theirs.body == ours.body => Kind::Fields,
            _ => Kind::Other,
        })
    }

    /// Whether a note excuses it.
    fn is_excused(self) -> bool {
        !matches!(self, Kind::Opened | Kind::Shared)
    }
}

/// Two answers, for one that knows why they differ.
pub(super) struct Pair<'a> {
    pub site: &'a Invented,
    pub asked: &'a Asked,
    pub theirs: &'a Reply,
    pub ours: &'a Reply,
}

impl Pair<'_> {
    /// Whether ours is a page of the entrance, which is for everybody.
    pub(super) fn is_entrance(&self) -> bool {
        let entrance = |file: &String| matches!(&**file, "index.php" | "docs/index.html");
        match self.asked.method {
            // Which file it is does not stand in the answer to a HEAD.
            "HEAD" => self.ours.status == 200,
            _ => self.ours.file.as_ref().is_none_or(entrance),
        }
    }

    /// Whether a path goes on behind the name of a file.
    pub(super) fn is_behind(&self) -> bool {
        let path = self.asked.path();
        let path = path.replacen("/manual/", "/docs/", 1).replacen("/pics/", "/img/", 1);
        let path = path.trim_start_matches('/');
        let is_below = |file: &str| path.strip_prefix(file).is_some_and(|it| it.starts_with('/'));
        FILES.iter().any(|file| is_below(file))
    }
}

/// A difference that docs/import.md tells of.
pub(super) struct Difference {
    pub name: &'static str,
    pub explains: fn(&Pair) -> bool,
}

/// What is compared, and what was found.
#[derive(Default)]
pub(super) struct Outcome {
    same: usize,
    /// By name, and whether they would be openings without it.
    documented: BTreeMap<(&'static str, bool), usize>,
    noted: BTreeMap<Kind, usize>,
    silent: BTreeMap<Kind, usize>,
    /// The first ones that are not good, one of a kind for each site.
    shown: Vec<String>,
    seen: BTreeSet<(Kind, String)>,
}

/// Examples that a failure shows: more would fill screens.
const SHOWN: usize = 20;

impl Outcome {
    pub(super) fn compared(&self) -> usize {
        let sum = |counts: &BTreeMap<Kind, usize>| counts.values().sum::<usize>();
        let documented = self.documented.values().sum::<usize>();
        self.same + documented + sum(&self.noted) + sum(&self.silent)
    }

    pub(super) fn add(
        &mut self,
        pair: &Pair,
        known: &[&[Difference]],
        notes: &[&Noted],
        written: impl FnOnce() -> String,
    ) {
        let Pair { site, asked, theirs, ours } = pair;
        let Some(kind) = Kind::of(pair) else {
            self.same += 1;
            return;
        };
        let mut known = known.iter().flat_map(|known| known.iter());
        if let Some(known) = known.find(|known| (known.explains)(pair)) {
            let is_opening = !kind.is_excused();
            *self.documented.entry((known.name, is_opening)).or_default() += 1;
            return;
        }
        if !notes.is_empty() && kind.is_excused() {
            *self.noted.entry(kind).or_default() += 1;
            return;
        }
        *self.silent.entry(kind).or_default() += 1;
        let is_new = self.seen.insert((kind, site.name.clone()));
        if is_new && (self.shown.len() < SHOWN || !kind.is_excused()) {
            let notes: Vec<&str> = notes.iter().map(|note| &*note.text).collect();
            self.shown.push(format!(
                "{kind:?} {asked:?}\n  theirs: {theirs:?}\n  ours:   {ours:?}\n{}\n{}\n{}",
                notes.join("\n"),
                site.text,
                written()
            ));
        }
    }

    pub(super) fn is_good(&self) -> bool {
        self.silent.is_empty()
    }
}

impl Display for Outcome {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        for shown in &self.shown {
            writeln!(to, "{shown}\n----")?;
        }
        let Outcome { same, documented, noted, silent, .. } = self;
        writeln!(to, "{} requests: {same} the same", self.compared())?;
        for ((name, is_opening), count) in documented {
            let opening = if *is_opening { ", where another file or page is served" } else { "" };
            writeln!(to, "  documented: {count:>6} {name}{opening}")?;
        }
        write!(to, "  with a note: {noted:?}\n  neither: {silent:?}")
    }
}
