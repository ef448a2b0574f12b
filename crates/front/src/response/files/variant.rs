//! Finds compressed files beside the requested one: `style.css.br` for `style.css`.

use std::path::PathBuf;

use http::HeaderMap;
use tokamak_config::Coding;

use super::{OpenFile, Opened, open};
use crate::response::compression::accept::{Weights, is_accepted};

/// The codings, best first: compressed with much time, Brotli's files are the smallest.
const CODINGS: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

/// The best representation that the client accepts. A compressed file that is older than the plain
/// one is out of date, and is ignored.
pub(super) fn choose(found: OpenFile, request: &HeaderMap) -> (OpenFile, Option<&'static str>) {
    if !is_accepted(request) {
        return (found, None);
    }
    for coding in Weights::read(request).preferred(CODINGS) {
        let mut path = found.path.clone().into_os_string();
        path.push(match coding {
            Coding::Br => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
        });
        if let Ok(Opened::Regular(compressed)) = open(&PathBuf::from(path))
            && compressed.modified >= found.modified
        {
            return (compressed, Some(coding.name()));
        }
    }
    (found, None)
}
