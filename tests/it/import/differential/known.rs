//! Differences of all servers.

use super::outcome::{Difference, Pair, Reply};

/// What docs/import.md says of more than one server.
pub(super) const OF_ALL: &[Difference] = &[
    Difference {
        name: "names that begin with a dot are not sent",
        explains: |pair| {
            let asks_for_login = pair.theirs.status == 401;
            let is_unsent = pair.ours.is_refused() || pair.is_entrance();
            is_hidden(&pair.asked.path()) && !asks_for_login && is_unsent
        },
    },
    Difference {
        name: "paths with `..` are no paths of scripts beside what is guarded",
        explains: |pair| pair.asked.sent().contains("/../") && pair.ours.status == 400,
    },
    Difference {
        name: "lists of folders are pages of another make",
        explains: |pair| is_list(pair.theirs) && is_list(pair.ours),
    },
    Difference {
        name: "the source of scripts is not sent",
        explains: |pair| pair.theirs.is_source() && pair.ours.is_refused(),
    },
    Difference {
        name: "both refuse, with 403, 404 or 410",
        explains: |Pair { theirs, ours, .. }| {
            matches!((theirs.status, ours.status), (403 | 404 | 410, 403 | 404 | 410))
        },
    },
    Difference {
        name: "both refuse, one of them by asking for a password",
        explains: |Pair { theirs, ours, .. }| {
            matches!((theirs.status, ours.status), (401, 403..=410) | (403..=410, 401))
        },
    },
    Difference {
        name: "both refuse, one of them the method",
        explains: |Pair { asked, theirs, ours, .. }| {
            !asked.reads()
                && theirs.is_refused()
                && ours.is_refused()
                && (theirs.status == 405 || ours.status == 405)
        },
    },
    Difference {
        name: "OPTIONS of a file tells its methods",
        explains: |pair| pair.asked.method == "OPTIONS" && pair.ours.status == 204,
    },
    Difference {
        name: "files are sent for GET and HEAD alone",
        explains: |pair| !pair.asked.reads() && pair.ours.status == 405,
    },
    Difference {
        name: "many wrong passwords are too many",
        explains: |pair| pair.ours.status == 429 && pair.theirs.status == 401,
    },
    Difference {
        name: "a script that is missing has the error page of what is missing",
        explains: |Pair { asked, theirs, ours, .. }| {
            (theirs.status, ours.status) == (404, 404) && asked.path().contains(".php")
        },
    },
    Difference {
        name: "what is refused is so in upper and lower case",
        explains: |pair| {
            let is_upper = pair.asked.path().bytes().any(|byte| byte.is_ascii_uppercase());
            is_upper && matches!(pair.ours.status, 401 | 403 | 404 | 410)
        },
    },
    Difference {
        name: "redirects have the fields of pages",
        explains: |Pair { theirs, ours, .. }| {
            let is_ours = |field: &String| ours.fields.contains(field);
            (300..400).contains(&ours.status)
                && (theirs.status, &theirs.location) == (ours.status, &ours.location)
                && theirs.fields.iter().all(is_ours)
        },
    },
    Difference {
        name: "fields of paths are for upper and lower case",
        explains: |pair| {
            let is_upper = pair.asked.path().bytes().any(|byte| byte.is_ascii_uppercase());
            is_upper && pair.theirs.status == pair.ours.status && pair.theirs.body == pair.ours.body
        },
    },
    Difference {
        name: "a folder that lies elsewhere is redirected to its slash first",
        explains: |Pair { asked, ours, .. }| {
            let path = asked.path();
            let to = ours.location.as_ref().and_then(|to| to.split('?').next());
            matches!(&*path, "/manual" | "/pics" | "/tool") && to == Some(&*format!("{path}/"))
        },
    },
    Difference {
        name: "scripts as error pages are told the query and the method",
        explains: |Pair { theirs, ours, .. }| {
            let names = ["QUERY_STRING=", "REQUEST_METHOD=", "BODY="];
            theirs.status >= 400
                && theirs.status == ours.status
                && theirs.file.is_some()
                && theirs.without(&names) == ours.without(&names)
        },
    },
    Difference {
        name: "a folder's index file answers where only files were left out",
        explains: |pair| {
            let folder = pair.asked.path().replacen("/manual/", "/docs/", 1);
            let index =
                |name: &str| pair.ours.file.as_deref() == Some(&*format!("{}{name}", &folder[1..]));
            let is_entrance =
                matches!(pair.theirs.file.as_deref(), Some("index.php" | "docs/index.html"));
            let is_index = ["index.php", "index.html", "guide.html"].into_iter().any(index);
            let is_none = matches!(pair.ours.status, 401 | 403 | 404) || is_list(pair.ours);
            folder.ends_with('/') && is_entrance && (is_index || is_none)
        },
    },
];

/// Those of them that serve something else.
pub(super) const OPENINGS: &[&str] = &[
    "names that begin with a dot are not sent",
    "a folder that lies elsewhere is redirected to its slash first",
    "a folder's index file answers where only files were left out",
];

/// Whether a part of a path begins with a dot, but for what is for everybody.
fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.') && !part.starts_with(".well-known"))
}

fn is_list(reply: &Reply) -> bool {
    let is_page = reply.status == 200
        && reply.file.is_none()
        && reply.field("content-type").eq(["text/html"]);
    is_page
        && reply.body.as_ref().is_some_and(|it| {
            // After a HEAD nothing else is known.
            it.is_empty()
                || it.contains("<title>Index of /")
                || it.contains("<span class=\"goup\">")
                || it.contains("<title>")
        })
}

/// Folders with documents.
pub(super) const FOLDERS: [&str; 10] =
    ["uploads", "admin", "docs", "data", "empty", "img", "css", ".git", "sub", "old"];

/// Whether a folder is given to the front controller, or refused, that the other server refuses or
/// redirects to its slash.
pub(super) fn is_folder_without_index(pair: &Pair) -> bool {
    let path = pair.asked.path();
    let is_given_up = pair.is_entrance() || matches!(pair.ours.status, 403 | 404);
    let is_slash = |to: &String| to.split('?').next() == Some(&*format!("{path}/"));
    match pair.theirs.status {
        405 if FOLDERS.contains(&&path[1..]) => pair.is_entrance(),
        403..=405 => path.ends_with('/') && pair.is_entrance(),
        // The page of that error lies behind a password.
        401 => pair.site.text.contains("error_page") && path.ends_with('/') && pair.is_entrance(),
        200 => is_list(pair.theirs) && is_given_up,
        _ => pair.theirs.location.as_ref().is_some_and(is_slash) && is_given_up,
    }
}
