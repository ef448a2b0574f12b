//! What is known while a configuration is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::directive::Directive;
use crate::model::Description;
use crate::note::Notes;
use crate::source::Disk;

use super::block::{Block, Timeouts};
use super::condition::{Flags, Maps, PathInfos};
use super::zones::Zone;

/// What is needed while a configuration is read.
pub(super) struct Reader<'a> {
    pub description: Description,
    pub prefix: PathBuf,
    /// All proxies that any block lets name clients.
    pub proxies: BTreeSet<String>,
    /// The shapes of log lines by their names.
    pub log_formats: BTreeMap<String, Directive>,
    /// Where clients are counted.
    pub zones: BTreeMap<String, Zone>,
    /// The blocks `upstream` by their names.
    pub upstreams: BTreeMap<String, Vec<Directive>>,
    /// What the server around a location says.
    pub around: Block,
    /// How many locations are around what is read.
    pub depth: usize,
    /// Whether what is read is a location's own.
    pub in_location: bool,
    /// What each server says of `timeouts`.
    pub waits: Vec<Timeouts>,
    /// Whether anything says where requests are logged.
    pub has_log: bool,
    /// The locations `@name` of a server.
    pub named: Vec<(String, Vec<Directive>)>,
    /// Whether an expression of a server's own lines may have found groups.
    pub captures: bool,
    /// What each `map` makes of its variable.
    pub maps: Maps,
    /// What `set` gives to variables, and for which requests.
    pub flags: Flags,
    /// Which variables are a part of the path.
    pub path_infos: PathInfos,
    pub disk: &'a dyn Disk,
    pub notes: &'a mut Notes,
}

impl Reader<'_> {
    /// A name of a file as nginx resolves it.
    pub(super) fn path(&self, name: &str) -> String {
        self.prefix.join(name).to_string_lossy().into_owned()
    }

    /// The same for a folder, without a slash at its end.
    pub(super) fn folder(&self, name: &str) -> String {
        let path = self.path(name);
        let end = path.trim_end_matches('/').len().max(1);
        path[..end].to_owned()
    }
}
