//! How nginx differs.

use super::super::known::is_folder_without_index;
use super::super::outcome::{Difference, Pair};
use regex_lite::RegexBuilder;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "what any location refuses is refused, in upper and lower case",
        explains: |pair| {
            let path = pair.asked.path();
            matches!(pair.ours.status, 401 | 403 | 404 | 410)
                && refusals(&pair.site.text).any(|head| is_for(head, &path))
        },
    },
    Difference {
        name: "a folder without an index file is for the front controller",
        explains: is_folder_without_index,
    },
    Difference {
        name: "where `location /` serves no folders, no folder has an index file",
        explains: |pair| {
            let serves_none = "location / { try_files $uri /index.php";
            pair.site.text.contains(serves_none)
                && pair.asked.path().ends_with('/')
                && pair.is_entrance()
        },
    },
    Difference {
        name: "php-fpm runs a script at the start of a path that is not there",
        explains: |pair| {
            let path = pair.asked.path();
            path.contains(".php/") && path.ends_with(".php") && pair.ours.is_refused()
        },
    },
    Difference {
        name: "what hands PATH_INFO on for one script does so for all",
        explains: |pair| {
            let script = pair.asked.path().trim_start_matches('/').to_owned();
            let is_own = |file: &String| script.starts_with(&format!("{file}/"));
            pair.theirs.status == 404
                && pair.site.text.contains("path_info")
                && pair.ours.file.as_ref().is_some_and(is_own)
        },
    },
    Difference {
        name: "index files answer all methods",
        explains: |Pair { asked, theirs, ours, .. }| {
            let file = format!("{}index.php", asked.path());
            theirs.status == 405
                && asked.path().ends_with('/')
                && ours.file.as_deref() == file.get(1..)
        },
    },
    Difference {
        name: "a folder that lies elsewhere has all of its paths, also those that an expression takes",
        explains: |pair| {
            let path = pair.asked.path();
            let is_mount = ["/manual/", "/pics/"].iter().any(|mount| path.starts_with(mount));
            is_mount && pair.site.text.contains(" alias ") && pair.theirs.status == 404
        },
    },
    Difference {
        name: "folders are redirected to their slash for all methods, also if they lie elsewhere",
        explains: |Pair { asked, theirs, ours, .. }| {
            let to = ours.location.as_ref().and_then(|to| to.split('?').next());
            matches!(theirs.status, 404 | 405) && to == Some(&*format!("{}/", asked.path()))
        },
    },
];

/// The heads of the locations that refuse, or that ask for a password.
fn refusals(text: &str) -> impl Iterator<Item = &str> {
    let refuses = [
        "deny all;",
        "return 403;",
        "return 404;",
        "return 410;",
        "auth_basic ",
        "internal;",
        " =404;",
    ];
    text.split("location ").skip(1).filter_map(move |location| {
        let (head, own) = location.split_once(" {")?;
        refuses.iter().any(|word| own.contains(word)).then_some(head)
    })
}

/// Whether a location is for a path, in any case, or for what goes on behind it.
fn is_for(head: &str, path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    match head.split_once(' ') {
        Some(("=", own)) => {
            path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Some(("~" | "~*", own)) => {
            let own = own.strip_suffix('$').map_or(own.to_owned(), |own| format!("{own}(?:/|$)"));
            let expression = RegexBuilder::new(&own).case_insensitive(true).build();
            expression.expect("an expression").is_match(&path)
        }
        Some(("^~", own)) => path.starts_with(own) || own.trim_end_matches('/') == path,
        _ => path.starts_with(head) || head.trim_end_matches('/') == path,
    }
}
