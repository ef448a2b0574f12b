//! What the comparison found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use super::Noted;
use crate::harness::Response;

/// What of an answer is compared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    pub status: u16,
    location: Option<String>,
    /// Of a 200.
    body: Option<String>,
    /// What caches are told, and the fields that the configuration adds.
    fields: Vec<String>,
}

impl Reply {
    pub(super) fn of(response: &Response) -> Reply {
        let status = response.status();
        let location = response.header("location").map(|location| {
            // nginx writes the whole URL where Tokamak writes the path.
            let own = location.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
            match own {
                Some((host, path)) if host.starts_with("site.") => format!("/{path}"),
                _ => location.to_owned(),
            }
        });
        let is_told = |name: &str| name == "cache-control" || name.starts_with("x-");
        let fields = response.head.headers.iter();
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value));
        let fields = fields.filter(|(name, _)| is_told(name) && name != "x-powered-by");
        let mut fields: Vec<String> = fields
            .flat_map(|(name, value)| {
                let words = value.split(',').map(|word| format!("{name}: {}", word.trim()));
                words.collect::<Vec<_>>()
            })
            .collect();
        fields.sort();
        // Of what is refused only that it is refused.
        fields.retain(|_| status < 400);
        Reply { status, location, body: (status == 200).then(|| response.text()), fields }
    }

    fn is_refused(&self) -> bool {
        self.status >= 400
    }
}

/// How two answers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Tokamak serves what nginx refuses.
    Opened,
    /// Tokamak refuses what nginx serves.
    Closed,
    /// Both refuse, with different statuses.
    Status,
    /// Both serve something else.
    Other,
    /// Only the fields differ.
    Fields,
}

impl Kind {
    fn of(theirs: &Reply, ours: &Reply) -> Option<Kind> {
        if theirs == ours {
            return None;
        }
        Some(match (theirs.is_refused(), ours.is_refused()) {
            (true, false) => Kind::Opened,
            (false, true) => Kind::Closed,
            (true, true) => Kind::Status,
            _ if theirs.fields != ours.fields && theirs.body == ours.body => Kind::Fields,
            _ => Kind::Other,
        })
    }
}

/// What is compared, and what was found.
#[derive(Default)]
pub(super) struct Outcome {
    same: usize,
    documented: usize,
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
        self.same + self.documented + sum(&self.noted) + sum(&self.silent)
    }

    pub(super) fn add(
        &mut self,
        text: &str,
        target: &str,
        (theirs, ours): (Reply, Reply),
        notes: &[&Noted],
        written: impl FnOnce() -> String,
    ) {
        let Some(kind) = Kind::of(&theirs, &ours) else {
            self.same += 1;
            return;
        };
        if is_documented(text, target, &theirs, &ours) {
            self.documented += 1;
            return;
        }
        // No note excuses what is opened.
        if !notes.is_empty() && kind != Kind::Opened {
            *self.noted.entry(kind).or_default() += 1;
            return;
        }
        *self.silent.entry(kind).or_default() += 1;
        let is_new = self.seen.insert((kind, text.to_owned()));
        if is_new && (self.shown.len() < SHOWN || kind == Kind::Opened) {
            let notes: Vec<&str> = notes.iter().map(|note| &*note.text).collect();
            self.shown.push(format!(
                "{kind:?} {target}\n  theirs: {theirs:?}\n  ours:   {ours:?}\n{}\n{text}\n{}",
                notes.join("\n"),
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
        let all = self.compared();
        write!(
            to,
            "{all} requests: {same} the same, {documented} documented, {noted:?} noted, \
             {silent:?} neither"
        )
    }
}

/// Whether docs/import.md says that these differ.
fn is_documented(text: &str, target: &str, theirs: &Reply, ours: &Reply) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    // Names that begin with a dot are not sent: they are 404, or for the front controller.
    let is_hidden = path.split('/').any(|part| {
        part.starts_with('.') && !matches!(part, "." | "..") && !part.starts_with(".well-known")
    });
    let is_sent = |reply: &Reply| reply.body.as_ref().is_some_and(|body| is_document(body));
    if is_hidden && !theirs.is_refused() && !is_sent(ours) {
        return true;
    }
    // No script of a site that guards something gets a path with `..`.
    if path.contains("/../") && ours.status == 400 {
        return true;
    }
    // What any location refuses is refused, also where nginx asks another one.
    let refuses = ["deny all;", "return 403;", "return 404;", "return 410;"];
    if matches!(ours.status, 403 | 404 | 410) && refuses.iter().any(|own| text.contains(own)) {
        return true;
    }
    // A folder without index file is the front controller's, if there is one; if not, nginx
    // redirects to its slash before it refuses it.
    let is_folder = path.ends_with('/') && theirs.status == 403;
    let is_front = |body: &String| body.starts_with("SCRIPT_NAME=/index.php\nPATH_INFO=\n");
    let is_front = ours.body.as_ref().is_some_and(is_front);
    if is_folder && is_front {
        return true;
    }
    let is_slash = |to: &String| to.split('?').next() == Some(&format!("{path}/"));
    let is_given_up = is_front || matches!(ours.status, 403 | 404);
    if theirs.location.as_ref().is_some_and(is_slash) && is_given_up {
        return true;
    }
    // php-fpm looks for a script at the start of what is not there.
    if path.contains(".php/") && ours.is_refused() {
        return true;
    }
    // Lists of folders are pages of another make.
    let is_list = |reply: &Reply| reply.body.as_ref().is_some_and(|it| it.contains("Index of /"));
    if is_list(theirs) && is_list(ours) {
        return true;
    }
    // What is refused is refused in upper case, too.
    if path.bytes().any(|byte| byte.is_ascii_uppercase()) && ours.is_refused() {
        return true;
    }
    // Both refuse, each in its own words.
    if theirs.is_refused() && ours.is_refused() {
        return true;
    }
    // nginx sends the source of scripts where nothing runs them.
    let is_source = theirs.body.as_ref().is_some_and(|body| body.starts_with("<?php"));
    is_source && ours.is_refused()
}

/// Whether it is the text of a file: each is its own name.
fn is_document(body: &str) -> bool {
    super::FILES.contains(&body)
}
