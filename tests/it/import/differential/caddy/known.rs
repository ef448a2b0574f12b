//! How Caddy differs.

use super::super::known::is_folder_without_index;
use super::super::outcome::{Difference, Pair};
use regex_lite::RegexBuilder;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "folders are redirected to their slash with 301",
        explains: |Pair { asked, theirs, ours, .. }| {
            let to = ours.location.as_ref().and_then(|to| to.split('?').next());
            ours.status == 301
                && to == Some(&*format!("{}/", asked.path()))
                && (theirs.status == 404
                    || theirs.status == 308
                    || theirs.file.as_ref().is_some_and(|file| file.ends_with("index.php")))
        },
    },
    Difference {
        name: "Caddy from 2.11 on says 400 for what goes on behind a file's name",
        explains: |pair| pair.theirs.status == 400 && pair.ours.is_refused() && pair.is_behind(),
    },
    Difference {
        name: "a slash behind a file's name makes it another path",
        explains: |Pair { asked, theirs, ours, .. }| {
            let path = asked.path();
            let to = theirs.location.as_ref().and_then(|to| to.split('?').next());
            let file = path.strip_suffix('/').and_then(|path| path.strip_prefix('/'));
            let is_entrance = ours.file.as_deref() == Some("index.php");
            let is_redirect = theirs.status == 308 && to == path.strip_suffix('/');
            // PHP's scripts are run without the slash.
            let is_cut = file.is_some() && file == theirs.file.as_deref() && is_entrance;
            is_redirect && ours.status != 308 || is_cut
        },
    },
    Difference {
        name: "redirects name the path without `..` and double slashes",
        explains: |Pair { theirs, ours, .. }| {
            let says_up = |to: &Option<String>| {
                let to = to.as_deref().unwrap_or_default();
                let path = to.split_once("://").map_or(to, |(_, path)| path);
                path.contains("/../") || path.contains("//")
            };
            (300..400).contains(&ours.status)
                && ours.status == theirs.status
                && says_up(&theirs.location)
                && !says_up(&ours.location)
        },
    },
    Difference {
        name: "what goes on behind a script's name is that script's",
        explains: |pair| {
            let is_entrance = |file: &String| matches!(&**file, "index.php" | "docs/index.html");
            let entrance = pair.theirs.file.as_ref().is_some_and(is_entrance);
            let is_same = pair.theirs.file.is_some() && pair.theirs.file == pair.ours.file;
            let is_slash = is_same
                && pair.theirs.without(&["PATH_INFO="]) == pair.ours.without(&["PATH_INFO="]);
            let is_head = pair.asked.method == "HEAD" && pair.theirs.status == 200;
            pair.is_behind() && (entrance || is_slash || is_head)
        },
    },
    Difference {
        name: "`handle_path` is for its path in this spelling alone",
        explains: |pair| {
            let Pair { site, asked, ours, .. } = pair;
            site.text.contains("handle_path")
                && (ours.is_refused() || pair.is_entrance())
                && ["/MANUAL/", "/PICS/"].iter().any(|it| asked.path().starts_with(it))
        },
    },
    Difference {
        name: "of two rewrites for a path the first one holds",
        explains: |Pair { site, asked, theirs, ours }| {
            let has_both =
                site.text.contains("rewrite @missing") || site.text.contains("try_files");
            let path = asked.path();
            let rewritten = ["/p/12", "/news/", "/old/page.html"];
            has_both
                && rewritten.iter().any(|it| path.starts_with(it))
                && site.text.contains("rewrite /")
                && theirs.file.is_some()
                && theirs.fields == ours.fields
        },
    },
    Difference {
        name: "what is refused is so before and after a rewrite",
        explains: |pair| {
            let path = pair.asked.path();
            let mut refused = REFUSED.iter().filter(|(line, _)| pair.site.text.contains(line));
            let is_for = |expression: &str| {
                let expression = RegexBuilder::new(expression).case_insensitive(true).build();
                expression.expect("an expression").is_match(&path)
            };
            matches!(pair.ours.status, 401 | 403 | 404 | 410) && refused.any(|(_, it)| is_for(it))
        },
    },
    Difference {
        name: "a folder without an index file is for the front controller",
        explains: is_folder_without_index,
    },
];

/// Lines that refuse or ask for a password, and for which paths, with what goes on behind them.
const REFUSED: [(&str, &str); 14] = [
    ("respond /data/* 403", "^/data(/|$)"),
    ("respond /admin/* 404", "^/admin(/|$)"),
    ("respond /gone 410", "^/gone(/|$)"),
    ("error /data/* 404", "^/data(/|$)"),
    ("path *.txt *.css", r"\.(txt|css)(/|$)"),
    ("path /uploads/*.php /img/*.php", r"^/(uploads|img)/.*\.php(/|$)"),
    ("path_regexp ^/(uploads|img)/", r"^/(uploads|img)/.*\.php(/|$)"),
    ("path /docs/*", "^/docs(/|$)"),
    ("path /.*", r"^/\."),
    ("basicauth /admin/*", "^/admin(/|$)"),
    ("basicauth /docs/guide.html", "^/docs/guide.html(/|$)"),
    ("path /data/* /info.php", "^/(data|info.php)(/|$)"),
    ("handle /data/*", "^/data(/|$)"),
    ("hide .git *.txt", r"\.txt(/|$)|/\.git"),
];
