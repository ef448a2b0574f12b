//! Which scripts run: the locations with `fastcgi_pass`, and the parameters that they send to PHP.

use crate::model::Site;
use crate::source::Place;
use crate::{pattern, settings};

use super::block::Block;
use super::reader::Reader;

/// The scripts of a location.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scripts {
    /// The only ones, as `scripts` of a rule; empty: all.
    pub names: Vec<String>,
    /// Whether a path behind the name is handed to the script.
    pub has_path_info: bool,
    /// What their paths fit, where they cannot be listed.
    pub expression: Option<String>,
}

impl Scripts {
    /// Scripts of these names; without any: all.
    pub(super) fn named(names: Vec<String>, has_path_info: bool) -> Scripts {
        Scripts { names, has_path_info, expression: None }
    }

    /// Whether all scripts are among them.
    pub(super) fn are_all(&self) -> bool {
        self.names.is_empty() && self.expression.is_none()
    }

    /// The condition of all other paths.
    pub(super) fn elsewhere(&self) -> Vec<String> {
        let names = self.names.iter().map(|name| match name.strip_suffix('*') {
            Some(below) => format!("!^{}", regex_lite::escape(below)),
            None => format!("!^{}(?:/|$)", regex_lite::escape(name)),
        });
        names.chain(self.expression.iter().map(|own| format!("!{own}"))).collect()
    }
}

/// The parameters of nginx's own files, which PHP gets anyway.
const STANDARD: &[&str] = &[
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "HTTP_HOST",
    "HTTP_PROXY",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
];

/// Whether PHP gets a parameter anyway.
pub(super) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name)
}

/// Paths of scripts, and others, by which an expression for all scripts is known.
const SCRIPTS: [&str; 5] = ["/a.php", "/index.php", "/b/c.php", "/Z9_-/q.php", "/0.php"];
const OTHERS: [&str; 8] =
    ["/", "/a", "/a.txt", "/php/a.css", "/aphp", "/a.html", "/a.phtml", "/a.inc"];

/// Names that only begin like those of scripts.
const LONGER: [&str; 3] = ["/a.php5", "/a.phps", "/a.php.bak"];

/// What may stand behind a name in an expression.
const END_OF_NAMES: [&str; 9] =
    ["$", "/", "(/|$)", "(?:/|$)", "($|/)", "(?:$|/)", "(/.*)?$", "(?:/.*)?$", "(/.+)?$"];

/// The names that PHP runs, with what may follow them.
pub(super) const NAMES: &str = "\\.php(?:/|$)";

/// The scripts that an expression of a location is for; `None` if it is for none.
pub(super) fn of_expression(expression: &str) -> Option<Scripts> {
    let has = |path: &str| pattern::is_in(expression, path);
    if SCRIPTS.iter().all(|path| has(path)) {
        return Some(Scripts::named(Vec::new(), has("/a.php/b")));
    }
    listed(expression).or_else(|| {
        let is_of_php = expression.contains("\\.php") || expression.contains("\\.ph(");
        let has_path_info = !expression.ends_with("php$") && !expression.ends_with(")$");
        let expression = Some(expression.to_owned());
        is_of_php.then_some(Scripts { names: Vec::new(), has_path_info, expression })
    })
}

/// Whether an expression for scripts is also for what PHP does not run, and whether that seems to
/// be meant: `\.php` finds `/a.php5`, too.
pub(super) fn has_others(expression: &str) -> (bool, bool) {
    let has = |paths: &[&str]| paths.iter().any(|path| pattern::is_in(expression, path));
    let is_meant = has(&OTHERS);
    let is_listed = listed(expression).is_some();
    let is_longer = listed(expression).is_some_and(|own| {
        own.names.iter().any(|name| pattern::is_in(expression, &format!("{name}5")))
    });
    let is_known = is_listed || SCRIPTS.iter().all(|path| pattern::is_in(expression, path));
    let has_more = has(&LONGER) || is_longer || !is_known || !is_of_names(expression);
    (is_meant || has_more, is_meant)
}

/// Whether all that an expression finds has the name of a script in it: `^/a.php` finds `/aphp`.
fn is_of_names(expression: &str) -> bool {
    let ends = |one: &&str| {
        let end = one.rsplit_once("\\.php").map(|(_, end)| end.trim_start_matches(')'));
        end.is_some_and(|end| END_OF_NAMES.contains(&end))
    };
    pattern::alternatives(expression).iter().all(ends)
}

/// The scripts that an expression names one by one.
fn listed(expression: &str) -> Option<Scripts> {
    let expression = expression.strip_prefix("(?i)").unwrap_or(expression);
    let has = |path: &str| pattern::is_in(expression, path);
    let rest = expression.strip_prefix("^/")?;
    let (names, end) = rest.split_once("\\.php").or_else(|| rest.split_once(".php"))?;
    let is_end = matches!(end, "$" | "(/|$)" | "(?:/|$)" | "($|/)" | "(?:$|/)" | "(/.*)?$" | "");
    let names = match names.strip_suffix(')') {
        Some(group) => group.strip_prefix("(?:").or_else(|| group.strip_prefix('('))?,
        None => names,
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-/".contains(&byte))
    };
    let names: Vec<&str> = names.split('|').collect();
    if !is_end || !names.iter().all(|name| is_name(&name.replace("\\.", ""))) {
        return None;
    }
    let names: Vec<String> = names.iter().map(|name| name.replace("\\.", ".")).collect();
    let has_path_info = has(&format!("/{}.php/b", names[0]));
    let names = names.iter().map(|name| format!("/{name}.php")).collect();
    Some(Scripts::named(names, has_path_info))
}

/// The script of the site that `SCRIPT_FILENAME` names, whatever the path is.
pub(super) fn named_script(file: &str, site: &Site) -> Option<String> {
    let root = site.root.as_deref().unwrap_or_default();
    let roots = ["$document_root", "$realpath_root", root];
    let path = roots.iter().find_map(|root| file.strip_prefix(root))?;
    let path = format!("/{}", path.trim_start_matches('/'));
    (path.ends_with(".php") && !path.contains('$')).then_some(path)
}

impl Reader<'_> {
    /// The parameters of a location beyond the usual ones, and whether it has the usual ones: the
    /// script that the path names is the one that runs.
    pub(super) fn params(&mut self, place: &Place, block: &Block, site: &mut Site) -> bool {
        // Without any, they stand in a file around this one.
        if !block.params.is_empty() && !block.params.contains_key("SCRIPT_FILENAME") {
            let reason = "php-fpm runs nothing without it, so nothing runs here either; if scripts \
                are to run, write `fastcgi_param SCRIPT_FILENAME \
                $document_root$fastcgi_script_name`";
            self.notes.refused(place, "no SCRIPT_FILENAME", reason);
            return false;
        }
        if let Some((_, file)) = block.params.get("SCRIPT_FILENAME") {
            let root = site.root.as_deref().unwrap_or_default();
            let known = [
                "$document_root$fastcgi_script_name",
                "$realpath_root$fastcgi_script_name",
                "$document_root/$fastcgi_script_name",
                "$request_filename",
                &format!("{root}$fastcgi_script_name"),
                &format!("{root}/$fastcgi_script_name"),
            ];
            if !known.contains(&&**file) && named_script(file, site).is_none() {
                let reason = "another script than that of the path is not run, so these are \
                    refused";
                self.notes.refused(place, &format!("SCRIPT_FILENAME {file}"), reason);
                return false;
            }
        }
        for (name, (place, value)) in &block.params {
            let line = format!("fastcgi_param {name} {value}");
            match &**name {
                "PHP_VALUE" => settings::add(self.notes, place, value, false, site),
                "PHP_ADMIN_VALUE" => settings::add(self.notes, place, value, true, site),
                "HTTPS" if value == "on" => {
                    let reason = "see `listen_tls`, or `trusted_proxies` behind a proxy";
                    self.notes.left(place, &line, reason);
                }
                "PATH_INFO"
                    if value.starts_with('$')
                        && !value.contains("fastcgi_path_info")
                        && self.path_info_of(value).is_empty() =>
                {
                    let reason = "scripts get what goes on behind their names";
                    self.notes.left(place, &line, reason);
                }
                name if STANDARD.contains(&name) => {}
                _ if value.contains('$') => {
                    let reason = "variables are not translated";
                    self.notes.left(place, &line, reason);
                }
                name => {
                    site.env.insert(name.to_owned(), value.clone());
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_may_be_for_more_than_names_of_scripts() {
        for (expression, expected) in [
            (r"\.php$", false),
            (r"[^/]\.php(/|$)", false),
            (r"^(.+\.php)(/.*)?$", false),
            (r"^/(a|b)\.php(?:$|/)", false),
            (r"\.php(/|$)|^/setup.php", true),
            (r"^(.+\.php)(.*)$", true),
            (r"\.php", true),
        ] {
            assert_eq!(has_others(expression).0, expected, "{expression}");
        }
    }

    #[test]
    fn the_usual_expressions_are_known() {
        let all = |has_path_info| Some(Scripts::named(Vec::new(), has_path_info));
        let named = |names: &[&str], has_path_info| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Some(Scripts::named(names, has_path_info))
        };
        let fitting = |expression: &str| {
            let expression = Some(expression.to_owned());
            Some(Scripts { names: Vec::new(), has_path_info: false, expression })
        };
        for (expression, expected) in [
            (r"\.php$", all(false)),
            (r"\.php(/|$)", all(true)),
            (r"[^/]\.php(/|$)", all(true)),
            (r"^.+\.php$", all(false)),
            (r"^(.+\.php)(.*)$", all(true)),
            (r"^/index\.php(/|$)", named(&["/index.php"], true)),
            (r"^/(index|app/dev)\.php$", named(&["/index.php", "/app/dev.php"], false)),
            (r"^/(?:index|api)\.php(?:$|/)", named(&["/index.php", "/api.php"], true)),
            (r"(?i)^/(index|api)\.php$", named(&["/index.php", "/api.php"], false)),
            (r"^/(a|b\.phar)\.php$", named(&["/a.php", "/b.phar.php"], false)),
            (r"^/(a|b.phar)\.php$", fitting(r"^/(a|b.phar)\.php$")),
            (r"^/setup/index.php", named(&["/setup/index.php"], true)),
            (r"\.(php|html)$", all(false)),
            (r"^/app/.*\.php$", fitting(r"^/app/.*\.php$")),
            (r"^/(index|.+/x)\.php$", fitting(r"^/(index|.+/x)\.php$")),
            (r"^/cgi-bin/", None),
        ] {
            assert_eq!(of_expression(expression), expected, "{expression}");
        }
    }
}
