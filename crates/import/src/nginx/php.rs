//! Which scripts run: the locations with `fastcgi_pass`, and what they tell PHP.

use crate::model::Site;
use crate::source::Place;
use crate::{pattern, settings};

use super::Reader;
use super::block::Block;

/// The scripts of a location.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scripts {
    /// The only ones, as `scripts` of a rule; empty: all.
    pub names: Vec<String>,
    /// Whether a path behind the name is handed to the script.
    pub has_path_info: bool,
}

/// What nginx's own files tell PHP, which it gets anyway.
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

/// Paths of scripts, and others, by which an expression for all scripts is known.
const SCRIPTS: [&str; 5] = ["/a.php", "/index.php", "/b/c.php", "/Z9_-/q.php", "/0.php"];
const OTHERS: [&str; 8] =
    ["/", "/a", "/a.txt", "/php/a.css", "/aphp", "/a.html", "/a.phtml", "/a.inc"];

/// The scripts that an expression of a location is for; `None` if a rule cannot list them.
pub(super) fn of_expression(expression: &str) -> Option<Scripts> {
    let has = |path: &str| pattern::is_in(expression, path);
    if SCRIPTS.iter().all(|path| has(path)) && !OTHERS.iter().any(|path| has(path)) {
        return Some(Scripts { names: Vec::new(), has_path_info: has("/a.php/b") });
    }
    let rest = expression.strip_prefix("^/")?;
    let (names, end) = rest.split_once("\\.php")?;
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
    if !is_end || end.is_empty() || !names.iter().all(|name| is_name(name)) {
        return None;
    }
    let has_path_info = has(&format!("/{}.php/b", names[0]));
    let names = names.iter().map(|name| format!("/{name}.php")).collect();
    Some(Scripts { names, has_path_info })
}

impl Reader<'_> {
    /// What a location tells PHP beyond the usual, and whether the usual is told: the script that
    /// the path names is the one that runs.
    pub(super) fn params(
        &mut self,
        place: &Place,
        block: &Block,
        script: Option<&str>,
        site: &mut Site,
    ) -> bool {
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
            ];
            let is_named = |name: &str| {
                ["$document_root", "$realpath_root", root]
                    .iter()
                    .any(|root| *file == format!("{root}{name}"))
            };
            if !known.contains(&&**file) && !script.is_some_and(is_named) {
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
    fn the_usual_expressions_are_known() {
        let all = |has_path_info| Some(Scripts { names: Vec::new(), has_path_info });
        let named = |names: &[&str], has_path_info| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Some(Scripts { names, has_path_info })
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
            (r"^/app/.*\.php$", None),
            (r"^/(index|.+/x)\.php$", None),
            (r"\.(php|html)$", None),
        ] {
            assert_eq!(of_expression(expression), expected, "{expression}");
        }
    }
}
