//! Requests of many kinds for the documents of all sites.

use super::dice::Dice;
use crate::harness::Request;

/// The documents of all sites. Each that is no script says its own name.
pub(super) const FILES: [&str; 27] = [
    "index.php",
    "other.php",
    "info.php",
    "page.html",
    "robots.txt",
    "notes.txt",
    "css/app.css",
    "img/a.png",
    "img/evil.php",
    "uploads/a.png",
    "uploads/evil.php",
    "uploads/deep/evil.php",
    "admin/index.php",
    "admin/tool.php",
    "admin/style.css",
    "admin/logo.png",
    "docs/index.html",
    "docs/guide.html",
    "docs/run.php",
    "data/secret.txt",
    "data/script.php",
    "empty/.keep",
    "sub/page.html",
    ".env",
    ".git/config",
    ".well-known/proof.txt",
    "old/page.html",
];

/// What a document of all sites is: its length tells which one it is, also after a HEAD.
pub(super) fn text(file: &str) -> String {
    let number = FILES.iter().position(|own| *own == file).unwrap_or(FILES.len());
    format!("{file:<width$}\n", width = SHORTEST + number)
}

/// The length of the first document without the end of its line: longer than all names.
const SHORTEST: usize = 60;

/// The document of a length.
pub(super) fn of_length(length: usize) -> Option<&'static str> {
    FILES.get(length.checked_sub(SHORTEST + 1)?).copied()
}

/// What scripts are: they say which file runs, in a field as well, and what it is told.
pub(super) const SCRIPT: &str = "<?php\n$file = \
    preg_replace('~^.*?/(?:site|s[0-9]+)/~', '', __FILE__);\nheader('Answered-By: ' . $file . '|' . ($_SERVER['PATH_INFO'] ?? ''));\n\
    echo \"FILE=$file\\n\";\nforeach (['SCRIPT_NAME', \
    'PATH_INFO', 'REQUEST_URI', 'QUERY_STRING', 'REQUEST_METHOD'] as $name) {\n    echo $name, '=', $_SERVER[$name] ?? '', \"\\n\";\n}\necho 'BODY=', \
    strlen(file_get_contents('php://input')), \"\\n\";\n";

/// Paths without a file, in one of the configurations at least.
const MISSING: [&str; 19] = [
    "/",
    "/some/page",
    "/some/page/",
    "/missing.php",
    "/missing.png",
    "/uploads/missing.png",
    "/uploads/missing.php",
    "/admin/none",
    "/docs/none",
    "/data/none.txt",
    "/blog/2020/post.html",
    "/p/12",
    "/gone",
    "/news/x",
    "/manual/",
    "/manual/guide.html",
    "/manual/run.php",
    "/pics/a.png",
    "/pics/evil.php",
];

/// A request, beside its host.
#[derive(Debug)]
pub(super) struct Asked {
    pub method: &'static str,
    pub target: String,
    /// Whether it has the name and the password of [`super::super::USERS`].
    pub has_password: bool,
    is_wrong: bool,
    /// A field that conditions look at.
    pub field: Option<(&'static str, &'static str)>,
}

impl Asked {
    pub(super) fn invent(dice: &mut Dice) -> Asked {
        let method = match dice.below(24) {
            0 | 1 => "HEAD",
            2 | 3 => "POST",
            4 => *dice.pick(&["OPTIONS", "PUT", "DELETE"]),
            _ => "GET",
        };
        let login = dice.below(36);
        let field = match login {
            10 => Some(("User-Agent", "an EvilBot")),
            11 => Some(("X-Forwarded-Proto", "http")),
            12 => Some(("User-Agent", "")),
            _ => None,
        };
        let (has_password, is_wrong) = (login < 9, login == 9);
        Asked { method, target: target(dice), has_password, is_wrong, field }
    }

    pub(super) fn request(&self, host: &str) -> Request {
        let mut request = Request::new(self.method, &self.target).header("Host", host);
        if matches!(self.method, "POST" | "PUT") {
            request = request.header("Content-Type", "text/plain").body("some words");
        }
        if let Some((name, value)) = self.field {
            request = request.header(name, value);
        }
        match (self.has_password, self.is_wrong) {
            (true, _) => request.basic_auth("max:open sesame"),
            (_, true) => request.basic_auth("max:sesame"),
            _ => request,
        }
    }

    /// Whether it asks for what is there, and changes nothing.
    pub(super) fn reads(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }

    /// The path as it was sent.
    pub(super) fn sent(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The path without escapes, `..` and doubled slashes.
    pub(super) fn path(&self) -> String {
        let sent = self.sent().replace("%2e", ".").replace("%2E", ".");
        let mut parts: Vec<&str> = Vec::new();
        for part in sent.split('/') {
            match part {
                "" => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let end = if sent.ends_with('/') && !parts.is_empty() { "/" } else { "" };
        format!("/{}{end}", parts.join("/"))
    }
}

fn target(dice: &mut Dice) -> String {
    let mut target = match dice.below(10) {
        0..=4 => format!("/{}", dice.pick(&FILES)),
        5..=7 => (*dice.pick(&MISSING)).to_owned(),
        _ => {
            let folders = ["uploads", "admin", "docs", "data", "empty", "img", "css", ".git"];
            format!("/{}/", dice.pick(&folders))
        }
    };
    match dice.below(12) {
        0 => target.push_str("/more"),
        1 => target.push_str("/more.png"),
        2 => target.push_str("/index.php"),
        3 => target = target.trim_end_matches('/').to_owned() + "/",
        4 if target.len() > 1 => target = target.trim_end_matches('/').to_owned(),
        5 => target = format!("/x/..{target}"),
        6 => target = format!("/{target}"),
        7 => target = target.replacen(".php", "%2ephp", 1),
        8 => target = target.to_ascii_uppercase(),
        _ => {}
    }
    match dice.below(6) {
        0 => target.push_str("?a=1"),
        1 => target.push_str("?q=/admin/&b=.php"),
        _ => {}
    }
    if target.is_empty() { "/".to_owned() } else { target }
}
