//! Where Caddy writes what was asked of a site.

use super::Reader;
use crate::directive::Directive;
use crate::model::Site;

impl Reader<'_> {
    /// The access log of a site, which is a file by its whole path, or standard output.
    pub(super) fn access_log(&mut self, directive: &Directive, site: &mut Site) {
        let inner = directive.inner();
        let (outputs, others): (Vec<&Directive>, Vec<&Directive>) =
            inner.iter().partition(|it| it.name == "output");
        let file = match &outputs[..] {
            [output] => match (output.arg(0), output.args.get(1)) {
                ("file", Some(file)) if file.starts_with('/') && !file.contains('{') => {
                    Some(&**file)
                }
                ("stdout", None) => Some("-"),
                _ => None,
            },
            _ => None,
        };
        // Another shape is that of JSON, too, so that what reads the log goes on.
        let is_known = directive.args.is_empty() && others.iter().all(|it| it.name == "format");
        match file.filter(|_| is_known && site.access_log.is_none()) {
            Some(file) => {
                let reason = "its lines are JSON, with the names of Tokamak; files are rotated by \
                    another program";
                self.notes.differs(&directive.place, &directive.line(), reason);
                site.access_log = Some((file.to_owned(), "json".to_owned()));
            }
            None => {
                let reason = "only one file by its whole path, or standard output, is translated, \
                    with lines of JSON; see `access_log`";
                self.notes.left(&directive.place, &directive.line(), reason);
            }
        }
    }
}
