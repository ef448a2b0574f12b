//! The whole configurations of `docs/sites.md` before the applications that they are for, as Debian
//! packages them: the applications work, and what their rules keep back is kept back however it is
//! spelled.

mod dokuwiki;
mod mediawiki;
mod nextcloud;
mod phpmyadmin;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::docs::shown;
use crate::harness::{Server, get};

/// A configuration of the page, with another root.
fn configuration(file: &str, root: (&str, &str)) -> String {
    let (shown_root, root) = (format!("root = \"{}\"", root.0), format!("root = \"{}\"", root.1));
    let text = shown("docs/sites.md", file);
    assert!(text.contains(&shown_root), "{file} has no {shown_root}");
    text.replace(&shown_root, &root)
}

/// The rules of a configuration of the page.
pub fn rules(file: &str) -> String {
    let text = shown("docs/sites.md", file);
    let start = text.find("[[site.rule]]").expect("a configuration with rules");
    text[start..].to_owned()
}

/// Lets every user write here and below.
fn open_to_all(path: &Path) {
    let is_folder = path.is_dir();
    fs::set_permissions(path, fs::Permissions::from_mode(if is_folder { 0o777 } else { 0o666 }))
        .unwrap();
    if is_folder {
        for entry in fs::read_dir(path).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
    }
}

/// Other ways to write a path. All but the last mean the same, at least to some file system.
fn spellings(path: &str) -> Vec<String> {
    let (folder, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
    let encoded: String = folder.bytes().map(|byte| format!("%{byte:02x}")).collect();
    vec![
        path.to_owned(),
        format!("/{path}"),
        format!("/.{path}"),
        format!("/x/..{path}"),
        format!("/x/%2e%2e{path}"),
        format!("/{encoded}{rest}"),
        format!("/{}{rest}", folder.to_uppercase()),
        format!("/{folder}{}", rest.replacen('/', "%2f", 1)),
        format!("/{folder}{}", rest.replacen('/', "//", 1)),
        format!("/{folder}%00{rest}"),
    ]
}

/// Checks that nothing of these paths below a mounted site, or below none, is seen, in whatever
/// spelling.
#[track_caller]
pub fn keeps_back(server: &Server, below: &str, paths: &[&str]) {
    let mut wrong = Vec::new();
    let mut connection = server.connect();
    for path in paths {
        for target in spellings(path) {
            let target = format!("{below}{target}");
            // A refusal of what is malformed ends the connection.
            let sent = connection.try_send(get(&target).bytes()).is_ok();
            let answer = if sent { connection.try_response("GET").ok() } else { None };
            let answer = answer.unwrap_or_else(|| {
                connection = server.connect();
                connection.exchange(&get(&target))
            });
            let expected = if target.contains("%00") { [400, 400] } else { [403, 404] };
            if !expected.contains(&answer.status()) {
                wrong.push(format!("{target}: {}", answer.status()));
            }
        }
    }
    assert!(wrong.is_empty(), "not kept back:\n{}", wrong.join("\n"));
}
