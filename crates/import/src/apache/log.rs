//! Where Apache writes what was asked of a site.

use super::Reader;
use crate::directive::Directive;
use crate::log_format;
use crate::model::{COMBINED, Site};

/// The shapes of lines that have the same names in Debian's configuration.
const KNOWN: [(&str, &str); 2] = [(COMBINED, COMBINED), ("vhost_combined", "vhost")];

impl Reader<'_> {
    /// The access log of a site: those around all sites are only for sites without one of their
    /// own.
    pub(super) fn access_log(&mut self, own: &[Directive], around: &[Directive], site: &mut Site) {
        let named = |all: &[Directive]| -> Vec<Directive> {
            all.iter().filter(|it| it.name == "customlog").cloned().collect()
        };
        let defined: Vec<Directive> = around.iter().chain(own).cloned().collect();
        let own = named(own);
        let logs = if own.is_empty() { named(around) } else { own };
        for log in logs {
            let (file, rest) = (log.arg(0), log.args.get(1..).unwrap_or_default());
            let is_file = !file.is_empty() && !file.starts_with('|') && !file.contains(['$', ':']);
            let reason = match rest {
                _ if site.access_log.is_some() => "a site has one access log; see `access_log`",
                _ if !is_file => {
                    "only a file is translated, with all of its path; see `access_log`"
                }
                [_] => {
                    let is_own = |it: &&Directive| it.name == "logformat" && it.arg(1) == rest[0];
                    let format = match KNOWN.iter().find(|(theirs, _)| *theirs == rest[0]) {
                        Some((_, ours)) => Ok((*ours).to_owned()),
                        None if rest[0].contains('%') => log_format::apache(&rest[0]),
                        None => match defined.iter().rfind(is_own) {
                            Some(format) => log_format::apache(format.arg(0)),
                            None => Err(format!("shape that is called {}", rest[0])),
                        },
                    };
                    let (format, reason) = log_format::or_combined(format);
                    if let Some(reason) = reason {
                        self.notes.differs(&log.place, &log.line(), reason);
                    }
                    let file = self.server_root.join(file).to_string_lossy().into_owned();
                    site.access_log = Some((file, format));
                    continue;
                }
                _ => "whose requests are written by conditions is not translated; see `log`",
            };
            self.notes.left(&log.place, &log.line(), reason);
        }
    }
}
