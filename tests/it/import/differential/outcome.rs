//! What the comparison found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use super::requests::{self, Asked, FILES, SCRIPT};
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
    pub(super) fn of(response: &Response, asked: &Asked) -> Reply {
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
        let (file, text) = match asked.method {
            "HEAD" => of_head(response),
            _ => (file_of(&text), text),
        };
        let body = (status < 300 || file.is_some()).then_some(text);
        Reply { status, location, body, fields: fields(response), file }
    }

    pub(super) fn is_refused(&self) -> bool {
        self.status >= 400
    }

    /// Whether the text of a script is sent.
    pub(super) fn is_source(&self) -> bool {
        self.file.as_deref() == Some(SOURCE)
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

/// Takes the place of a file's name where a script does not run, but is sent.
const SOURCE: &str = "the source of a script";

/// The file whose page or text this is.
fn file_of(text: &str) -> Option<String> {
    if text.starts_with("<?php") {
        return Some(SOURCE.to_owned());
    }
    let ran = text.strip_prefix("FILE=").and_then(|rest| rest.lines().next());
    ran.or(Some(text.trim_end()).filter(|text| FILES.contains(text))).map(str::to_owned)
}

/// The file that a GET would send, and what is known of its text, by the head alone.
fn of_head(response: &Response) -> (Option<String>, String) {
    if let Some((file, path_info)) =
        response.header("answered-by").and_then(|it| it.split_once('|'))
    {
        return (Some(file.to_owned()), format!("FILE={file}\nPATH_INFO={}\n", path_info));
    }
    let length = response.header("content-length").and_then(|it| it.parse().ok());
    let file = length.and_then(|length| match length == SCRIPT.len() {
        true => Some(SOURCE),
        false => requests::of_length(length),
    });
    (file.map(str::to_owned), String::new())
}

/// The fields that are compared. Of what is refused only that it is refused.
fn fields(response: &Response) -> Vec<String> {
    if response.status() >= 400 {
        return Vec::new();
    }
    let is_compared = |name: &str| {
        matches!(name, "cache-control" | "content-type")
            || (name.starts_with("x-") && name != "x-powered-by")
    };
    let fields = response.head.headers.iter();
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value));
    let mut fields: Vec<String> = fields
        .filter(|(name, _)| is_compared(name))
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
    /// Whether ours is a page of the entrance, which is for everybody, or no page at all.
    pub(super) fn is_entrance(&self) -> bool {
        match self.ours.file.as_deref() {
            Some(file) => matches!(file, "index.php" | "docs/index.html"),
            None => self.ours.status != 200,
        }
    }

    /// The file behind whose name the path goes on.
    pub(super) fn behind(&self) -> Option<&'static str> {
        let path = self.asked.path();
        let path = path.replacen("/manual/", "/docs/", 1).replacen("/pics/", "/img/", 1);
        let path = path.trim_start_matches('/');
        let is_below = |file: &str| path.strip_prefix(file).is_some_and(|it| it.starts_with('/'));
        FILES.into_iter().find(|file| is_below(file))
    }

    /// Whether a path goes on behind the name of a file.
    pub(super) fn is_behind(&self) -> bool {
        self.behind().is_some()
    }
}

/// A difference that docs/import.md tells of.
pub(super) struct Difference {
    pub name: &'static str,
    pub explains: fn(&Pair) -> bool,
}

/// All that docs/import.md tells of a server.
pub(super) struct Known<'a> {
    pub differences: [&'a [Difference]; 2],
    pub openings: [&'a [&'a str]; 2],
}

impl Known<'_> {
    /// The difference that explains two answers. That something else is served needs a name that
    /// is for just that.
    fn find(&self, pair: &Pair, kind: Kind) -> Option<&Difference> {
        let may = |it: &&Difference| kind.is_excused() || self.openings.concat().contains(&it.name);
        let all = self.differences.iter().flat_map(|some| some.iter());
        all.filter(may).find(|it| (it.explains)(pair))
    }
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
        known: &Known,
        notes: &[&Noted],
        written: impl FnOnce() -> String,
    ) {
        let Pair { site, asked, theirs, ours } = pair;
        let Some(kind) = Kind::of(pair) else {
            self.same += 1;
            return;
        };
        if let Some(known) = known.find(pair, kind) {
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
