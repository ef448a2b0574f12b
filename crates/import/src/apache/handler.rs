//! What answers for the names of files: PHP, Apache's own sending of files, or what is not here.
//!
//! Tokamak runs `.php` and never sends what may be the source of PHP. So where another handler is
//! for scripts, nothing runs; and what another handler would answer is refused, since a file that
//! Apache runs or changes would be sent as it lies there.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::pattern;

use super::Reader;
use super::area::Area;

/// Endings of scripts.
const SCRIPTS: &[&str] = &["php", "phtml", "pht", "phar", "php3", "php4", "php5", "php7", "php8"];

/// Endings that Tokamak never sends: those of scripts, and of what scripts include.
const UNSENT: &[&str] = &["phps", "php6", "inc", "module"];

/// Handlers that send the file itself, or one that is named like it.
const OF_FILES: &[&str] = &["none", "default-handler", "default", "send-as-is", "type-map"];

impl Reader<'_> {
    /// `SetHandler`: for all of an area.
    pub(super) fn handler(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let handler = directive.arg(0).to_ascii_lowercase();
        if is_php(&handler) || handler.contains("fcgi:") {
            self.run_by_another_name(directive, area, site);
            return;
        }
        let rule = Rule::at(&directive.place, area.scope.clone());
        if OF_FILES.contains(&&*handler) || handler.starts_with("text/") {
            let mut rule = rule.serve(Serve::Files);
            // In a folder the front controller still answers for what is missing.
            if !area.scope.is_all() && area.scope.pattern.is_none() {
                rule.scope.pattern = Some("\\.php(?:/|$)".to_owned());
            }
            site.rules.push(rule);
            return;
        }
        let reason = "nothing but files and PHP is served, so what it is for is refused";
        self.notes.refused(&directive.place, &directive.line(), reason);
        site.rules.push(rule.refuse_all(404));
    }

    /// What says by the endings of names what answers; `directives` are all of the section.
    pub(super) fn endings(
        &mut self,
        directive: &Directive,
        area: &Area,
        directives: &[Directive],
        site: &mut Site,
    ) {
        let (kind, names) = match &*directive.name {
            "removehandler" | "removetype" => ("none".to_owned(), &directive.args[..]),
            "forcetype" => (directive.arg(0).to_ascii_lowercase(), &[][..]),
            _ => {
                let names = directive.args.get(1..).unwrap_or_default();
                (directive.arg(0).to_ascii_lowercase(), names)
            }
        };
        let endings: Vec<String> =
            names.iter().map(|it| it.trim_start_matches('.').to_ascii_lowercase()).collect();
        let is_type = directive.name.ends_with("type");
        if directive.name == "forcetype" {
            // PHP runs by its type where no handler was set.
            match is_php(&kind) {
                true => self.run_by_another_name(directive, area, site),
                false if has_scripts(area) => {
                    if !matches!(&*kind, "text/plain" | "application/octet-stream") {
                        let reason = "no script runs for these paths";
                        self.notes.differs(&directive.place, &directive.line(), reason);
                    }
                    site.rules.push(files(directive, area));
                }
                false => {}
            }
            return;
        }
        if is_php(&kind) || kind == "fcgid-script" || kind.contains("fcgi:") {
            let is_safe = |it: &String| [SCRIPTS, UNSENT].concat().contains(&&**it);
            let others: Vec<String> = endings.into_iter().filter(|it| !is_safe(it)).collect();
            if !others.is_empty() {
                let reason = "only names that end in .php run, so other ones are refused";
                self.notes.refused(&directive.place, &directive.line(), reason);
                self.refuse_endings(directive, &others, area, site);
            }
            return;
        }
        if endings.iter().any(|it| SCRIPTS.contains(&&**it)) {
            site.rules.push(files(directive, area));
        }
        if is_type || OF_FILES.contains(&&*kind) {
            return;
        }
        // Without it, Apache refuses what would be run as CGI.
        let options = directives.iter().filter(|it| it.name == "options");
        let mut options = options.flat_map(|it| &it.args);
        let is_off = kind == "cgi-script" && options.any(|it| it.eq_ignore_ascii_case("-execcgi"));
        if !is_off {
            let reason = "nothing but files and PHP is served, so these names are refused";
            self.notes.refused(&directive.place, &directive.line(), reason);
        }
        self.refuse_endings(directive, &endings, area, site);
    }

    /// PHP is for all of an area, which may be for other names than those of scripts.
    fn run_by_another_name(&mut self, directive: &Directive, area: &Area, site: &mut Site) {
        let is_for = |name: &str| {
            let pattern = area.scope.pattern.as_ref();
            pattern.is_none_or(|pattern| pattern::is_in(pattern, name))
        };
        let others = ["/a", "/a.html", "/a.htm", "/a.tpl", "/a.txt", "/a.xml", "/a.js", "/a.x"];
        if !has_scripts(area) || others.into_iter().any(is_for) {
            let reason = "only names that end in .php run, so what it is for is refused";
            self.notes.refused(&directive.place, &directive.line(), reason);
            site.rules.push(Rule::at(&directive.place, area.scope.clone()).refuse_all(404));
        }
    }

    /// Refuses names with these endings, anywhere in the name, as Apache looks at all of them.
    fn refuse_endings(
        &mut self,
        directive: &Directive,
        endings: &[String],
        area: &Area,
        site: &mut Site,
    ) {
        let endings: Vec<String> = endings.iter().map(|it| regex_lite::escape(it)).collect();
        if endings.is_empty() {
            return;
        }
        let pattern = format!("\\.(?:{})(?:[./]|$)", endings.join("|"));
        let scope = match area.scope.pattern {
            None => Scope { pattern: Some(pattern), ..area.scope.clone() },
            // Two expressions cannot be one: the area alone is more than both.
            Some(_) => area.scope.clone(),
        };
        site.rules.push(Rule::at(&directive.place, scope).refuse_all(403));
    }
}

/// Whether scripts may be in an area.
fn has_scripts(area: &Area) -> bool {
    area.scope.pattern.as_ref().is_none_or(|pattern| pattern::is_in(pattern, "/a.php"))
}

/// Nothing runs in an area.
fn files(directive: &Directive, area: &Area) -> Rule {
    Rule::at(&directive.place, area.scope.clone()).serve(Serve::Files)
}

/// Whether a handler or a type is PHP's own.
fn is_php(kind: &str) -> bool {
    kind.contains("php") && !kind.contains("source")
}
