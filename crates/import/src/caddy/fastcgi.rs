//! `php_fastcgi`: a front controller for all that is no file. `php_server` of FrankenPHP is the
//! same, with the files.

use crate::directive::Directive;
use crate::model::{Rule, Scope, Serve, Site};
use crate::settings;
use crate::source::Place;

use super::Reader;
use super::matcher::Matcher;

/// Its directives that tune the connection to php-fpm, which is not used.
const TUNING: &[&str] = &[
    "buffer_requests",
    "capture_stderr",
    "dial_timeout",
    "flush_interval",
    "lb_policy",
    "lb_retries",
    "lb_try_duration",
    "lb_try_interval",
    "read_timeout",
    "request_buffers",
    "resolve_root_symlink",
    "response_buffers",
    "write_timeout",
];

/// What runs where there is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Php {
    /// The front controller.
    pub script: Option<String>,
    /// The index files of folders.
    index: Vec<String>,
    /// Whether files are served, too.
    pub has_files: bool,
}

impl Reader<'_> {
    /// What runs, if all of it that decides what is served is translated.
    pub(super) fn php(&mut self, directive: &Directive, site: &mut Site) -> Option<Php> {
        let is_server = directive.name == "php_server";
        let mut php = Php {
            script: Some("index.php".to_owned()),
            index: vec!["index.php".to_owned()],
            has_files: is_server,
        };
        for inner in directive.inner() {
            let place = &inner.place;
            let is_translated = match (&*inner.name, &inner.args[..]) {
                ("root", [root]) => self.path(root) == site.root,
                ("split", [end]) => end == ".php",
                ("index", [name]) => {
                    php.script = (name != "off").then(|| name.clone());
                    let is_plain = !name.contains(['/', '{']) && name != "off";
                    php.index = vec![if is_plain { name.clone() } else { String::new() }];
                    true
                }
                ("try_files", files) => tries(files, &mut php),
                ("env", [name, value]) => {
                    self.env(inner, name, value, site);
                    true
                }
                ("file_server", [off]) if is_server && off == "off" => {
                    php.has_files = false;
                    true
                }
                ("worker", _) if is_server => {
                    let reason = "see `mode` for workers";
                    self.notes.left(place, "worker", reason);
                    true
                }
                ("trusted_proxies", _) => {
                    let reason = "see `trusted_proxies`; `X-Forwarded-For` reaches PHP as it came";
                    self.notes.left(place, "trusted_proxies", reason);
                    true
                }
                ("header_down", _) => {
                    self.notes.left(place, &inner.line(), "see the headers of rules");
                    true
                }
                (name, _) => TUNING.contains(&name),
            };
            if !is_translated {
                let reason = match &*inner.name {
                    "root" => {
                        "PHP runs here, in the folder that `root` of the site names, and files \
                        are read there, too: name one folder in both places. The site is refused"
                    }
                    _ => "not translated, and it may decide what runs; the site is refused",
                };
                self.notes.refused(place, &inner.line(), reason);
                return None;
            }
        }
        Some(php)
    }

    /// A parameter of scripts, or their settings.
    fn env(&mut self, inner: &Directive, name: &str, value: &str, site: &mut Site) {
        match name {
            "PHP_VALUE" => settings::add(self.notes, &inner.place, value, false, site),
            "PHP_ADMIN_VALUE" => settings::add(self.notes, &inner.place, value, true, site),
            _ if value.contains('{') => {
                let reason = "placeholders are not translated; see `env`";
                self.notes.left(&inner.place, &inner.line(), reason);
            }
            _ => drop(site.env.insert(name.to_owned(), value.to_owned())),
        }
    }

    /// Runs PHP for what a matcher is for; says whether rules can say that.
    pub(super) fn run(
        &self,
        directive: &Directive,
        php: &Php,
        matcher: &Matcher,
        site: &mut Site,
    ) -> bool {
        let place = &directive.place;
        if !matcher.is_all() && !self.files_but(place, &[matcher], site) {
            return false;
        }
        if php.script.is_none() {
            let rule = Rule::at(place, Scope::default()).serve(Serve::Existing);
            site.rules.push(rule);
        }
        // Of folders, no path ends like a script.
        if matcher.path() == Some("*.php") {
            site.front_controller.clone_from(&php.script);
        } else {
            self.index(php, site);
        }
        site.front_controller_for = vec!["php", "hidden"];
        true
    }

    /// What runs where there is no file, and the index files of folders.
    pub(super) fn index(&self, php: &Php, site: &mut Site) {
        site.front_controller.clone_from(&php.script);
        site.front_controller_for = vec!["php", "hidden"];
        site.index = Some(php.index.clone());
    }

    /// Only serves files but where one of the matchers fits.
    pub(super) fn files_but(&self, place: &Place, matchers: &[&Matcher], site: &mut Site) -> bool {
        let rest = Matcher::none_of(matchers, self.hides_clients);
        let rule = Rule::at(place, Scope::default()).serve(Serve::Files);
        match rest.and_then(|rest| rest.by_path(&rule)) {
            Some(rules) => site.rules.extend(rules),
            None => return false,
        }
        true
    }
}

/// Reads `try_files`; says whether all of it is known.
fn tries(files: &[String], php: &mut Php) -> bool {
    let [first, rest @ ..] = files else { return false };
    if first != "{path}" {
        return false;
    }
    php.index.clear();
    php.script = None;
    for (at, file) in rest.iter().enumerate() {
        let is_last = at + 1 == rest.len();
        match file.strip_prefix("{path}/") {
            Some("") => {}
            Some(name) if !name.contains(['/', '{']) => php.index.push(name.to_owned()),
            None if is_last && file == "=404" => {}
            None if is_last && file.ends_with(".php") && !file.contains('{') => {
                php.script = Some(file.trim_start_matches('/').to_owned());
            }
            _ => return false,
        }
    }
    if php.index.is_empty() {
        php.index.push(String::new());
    }
    true
}
