//! What is refused with 404, and what answers in its place.

use crate::directive::Directive;

use super::block::Block;
use super::reader::Reader;

impl Reader<'_> {
    /// Says where `error_page 404 =` would answer for what is refused.
    pub(super) fn stays_missing(&mut self, block: &Block) {
        let Some(page) = block.missing.as_ref().and_then(|missing| missing.args.last()) else {
            return;
        };
        let steps = block.steps.iter().filter(|step| refuses_missing(step).is_none());
        for step in refused_as_missing(&steps.cloned().collect::<Vec<_>>()) {
            let reason = format!(
                "it stays 404, where `error_page 404 =` has {page} answer; if that is to be, write \
                    a rule with `rewrite` in place of the one that refuses these paths"
            );
            self.notes.differs(&step.place, &step.line(), reason);
        }
    }
}

/// The steps that say 404, also within conditions.
fn refused_as_missing(steps: &[Directive]) -> Vec<&Directive> {
    let own = steps.iter().flat_map(|step| match &*step.name {
        "return" if step.arg(0) == "404" => vec![step],
        _ => refused_as_missing(step.inner()),
    });
    own.collect()
}

/// The file of `if (!-f $document_root$fastcgi_script_name) { return 404; }`.
pub(super) fn refuses_missing(step: &Directive) -> Option<String> {
    let condition = step.args.join(" ");
    let condition = condition.trim_start_matches('(').trim_end_matches(')').trim();
    let (test, file) = condition.split_once(' ')?;
    let file = file.trim().replacen("_root/$", "_root$", 1);
    let names = [
        "$document_root$fastcgi_script_name",
        "$realpath_root$fastcgi_script_name",
        "$request_filename",
    ];
    let refuses = |it: &Directive| it.name == "return" && matches!(it.arg(0), "403" | "404");
    let is_of_missing = step.name == "if"
        && matches!(test, "!-f" | "!-e")
        && names.contains(&&*file)
        && !step.inner().is_empty()
        && step.inner().iter().all(refuses);
    is_of_missing.then_some(file)
}
