//! `php_fastcgi`: a front controller for all that is no file.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};

use super::Reader;

/// Its directives that tune the connection to php-fpm, which is not used.
const TUNING: &[&str] =
    &["capture_stderr", "dial_timeout", "read_timeout", "resolve_root_symlink", "write_timeout"];

impl Reader<'_> {
    /// Whether all of it that decides what is served is translated.
    pub(super) fn php(&mut self, directive: &Directive, site: &mut Site) -> bool {
        let mut script = Some("index.php".to_owned());
        for inner in directive.inner() {
            let place = &inner.place;
            let is_translated = match (&*inner.name, &inner.args[..]) {
                ("root", [root]) => self.path(root) == site.root,
                ("split", [end]) => end == ".php",
                ("index", [name]) => {
                    script = (name != "off").then(|| name.clone());
                    true
                }
                ("try_files", [.., last]) => {
                    script = (last != "=404").then(|| last.trim_start_matches('/').to_owned());
                    last == "=404" || (last.ends_with(".php") && !last.contains('{'))
                }
                ("env", [name, value]) => {
                    match value.contains('{') {
                        true => {
                            let reason = "placeholders are not translated; see `env`";
                            self.notes.left(place, &inner.line(), reason);
                        }
                        false => drop(site.env.insert(name.clone(), value.clone())),
                    }
                    true
                }
                (name, _) => TUNING.contains(&name),
            };
            if !is_translated {
                let reason = "not translated, and it may decide what runs; the site is refused";
                self.notes.refused(place, &inner.line(), reason);
                return false;
            }
        }
        match script {
            Some(script) => {
                let is_plain = !script.contains(['/', '{']);
                site.index = Some(vec![if is_plain { script.clone() } else { String::new() }]);
                site.front_controller = Some(script);
                site.front_controller_for = vec!["php", "hidden"];
            }
            None => {
                let everything = Scope::default();
                site.rules.push(Rule::at(&directive.place, everything).serve(Serve::Existing));
                site.index = Some(vec!["index.php".to_owned()]);
            }
        }
        true
    }
}
