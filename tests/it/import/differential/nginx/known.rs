//! How nginx differs.

use super::super::known::is_folder_without_index;
use super::super::outcome::{Difference, Pair, Reply};
use regex_lite::RegexBuilder;

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "what any location refuses is refused, in upper and lower case",
        explains: |pair| {
            let path = pair.asked.path();
            // After many wrong passwords, clients get 429.
            matches!(pair.ours.status, 401 | 403 | 404 | 410 | 429)
                && refusals(&pair.site.text).any(|head| {
                    // Whom an index file is for, its folder is for.
                    ["", "index.php", "index.html", "guide.html"].iter().any(|index| {
                        (index.is_empty() || path.ends_with('/'))
                            && is_for(head, &format!("{path}{index}"))
                    })
                })
        },
    },
    Difference {
        name: "an error page behind a password is left out",
        explains: |pair| {
            let (text, path) = (&pair.site.text, pair.asked.path());
            let before = text.split("location ").next().unwrap_or_default();
            pair.theirs.status == 401
                && pair.is_entrance()
                && (path.contains("/.") || path.ends_with('/'))
                && text.contains("error_page 403 404 /docs/guide.html")
                && !before.contains("auth_basic")
                && !refusals(text).any(|head| is_for(head, &path))
        },
    },
    Difference {
        name: "a folder without an index file is for the front controller",
        explains: is_folder_without_index,
    },
    Difference {
        name: "php-fpm runs a script at the start of a path that is not there",
        explains: |pair| {
            let path = pair.asked.path();
            path.contains(".php/") && path.ends_with(".php") && pair.ours.is_refused()
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
        name: "PATH_INFO is handed on, whatever `fastcgi_param` says",
        explains: |Pair { theirs, ours, .. }| {
            let is_same = theirs.without(&["PATH_INFO=", "SCRIPT_NAME="])
                == ours.without(&["PATH_INFO=", "SCRIPT_NAME="]);
            theirs.file.is_some() && theirs.file == ours.file && is_same
        },
    },
    Difference {
        name: "what `error_page 404 =` names is told the query and the method",
        explains: |pair| {
            let Pair { site, theirs, ours, .. } = pair;
            let names = ["QUERY_STRING=", "REQUEST_METHOD=", "BODY="];
            if !site.text.contains("error_page 404 = /index.php") {
                return false;
            }
            // Files do not have that method.
            theirs.status == 405 && pair.is_entrance()
                || theirs.file.as_deref() == Some("index.php")
                    && theirs.without(&names) == ours.without(&names)
        },
    },
    Difference {
        name: "both refuse, one because locations lead to each other",
        explains: |pair| pair.theirs.status == 500 && pair.ours.is_refused(),
    },
    Difference {
        name: "what a condition of a whole server refuses is refused before rewrites, too",
        explains: |Pair { site, asked, theirs, ours }| {
            let path = asked.path();
            let is_rewritten = path.starts_with("/p/") || path.starts_with("/blog/");
            is_rewritten
                && site.text.contains("rewrite ")
                && ["    if (", "; if ("].iter().any(|line| site.text.contains(line))
                && !theirs.is_refused()
                && ours.is_refused()
        },
    },
    Difference {
        name: "redirects of a whole server have the fields of their path",
        explains: |Pair { theirs, ours, .. }| {
            matches!(ours.status, 301..=308)
                && (theirs.status, &theirs.location) == (ours.status, &ours.location)
        },
    },
    Difference {
        name: "a path that is rewritten is not rewritten for a second location",
        explains: |Pair { site, asked, ours, .. }| {
            site.text.contains("location /sub { rewrite")
                && asked.path().starts_with("/sub/")
                && ours.is_refused()
        },
    },
    Difference {
        name: "scripts that no location runs are refused, also if they are missing",
        explains: |Pair { site, asked, theirs, ours }| {
            let by_expression = ["location ~ ^/admin/.*\\.php$ {", "location ~ ^/(index|.+/index)"];
            by_expression.iter().any(|line| site.text.contains(line))
                && asked.path().contains(".php")
                && theirs.file.as_deref() == Some("index.php")
                && ours.is_refused()
        },
    },
    Difference {
        name: "paths with the names of two scripts are refused",
        explains: |Pair { site, asked, ours, .. }| {
            let leads_there = ["/index.php$request_uri", "rewrite ^/(.*)/$ /$1 permanent"];
            leads_there.iter().any(|line| site.text.contains(line))
                && asked.path().contains(".php")
                && ours.is_refused()
        },
    },
    Difference {
        name: "`$request_uri` is compared after decoding",
        explains: |Pair { site, asked, theirs, ours }| {
            site.text.contains("if ($request_uri ~")
                && asked.target.contains('%')
                && !theirs.is_refused()
                && ours.is_refused()
        },
    },
    Difference {
        name: "redirects to `$request_uri` have the path after decoding, and the query once",
        explains: |Pair { theirs, ours, .. }| {
            let (Some(theirs), Some(ours)) = (&theirs.location, &ours.location) else {
                return false;
            };
            let query = ours.split_once('?').map(|(_, query)| query);
            let path = theirs.split_once("://").map_or(&**theirs, |(_, path)| path);
            let is_raw = path.contains("/../") || path.contains("//") || path.contains("%2e");
            is_raw || query.is_some_and(|query| *theirs == format!("{ours}?{query}"))
        },
    },
    Difference {
        name: "a condition for the query of a whole server is asked for the client's alone",
        explains: |pair| {
            pair.theirs.status == 403
                && pair.is_entrance()
                && pair.site.text.contains("if ($query_string ~ \"q=\")")
                && pair.site.text.contains("?q=$uri")
        },
    },
    Difference {
        name: "scripts below a folder that lies elsewhere are refused",
        explains: |pair| {
            let path = pair.asked.path();
            let is_elsewhere = path.starts_with("/pics/") || path.starts_with("/manual/");
            is_elsewhere && path.contains(".php") && pair.ours.is_refused()
        },
    },
    Difference {
        name: "a file that `try_files` names is for whom its own path is",
        explains: |Pair { site, theirs, ours, .. }| {
            theirs.file.as_deref() == Some("docs/index.html")
                && site.text.contains("try_files $uri /docs/index.html")
                && matches!(ours.status, 401 | 403)
        },
    },
    Difference {
        name: "the script of a named location has the fields of its own path",
        explains: |Pair { site, theirs, ours, .. }| {
            site.text.contains("location @php")
                && theirs.status == ours.status
                && theirs.body == ours.body
        },
    },
    Difference {
        name: "folders that lie elsewhere have no error pages of the site",
        explains: |Pair { asked, theirs, ours, .. }| {
            let path = asked.path();
            let is_mount = path.starts_with("/pics") || path.starts_with("/manual");
            is_mount && theirs.status == ours.status && theirs.is_refused() && ours.file.is_none()
        },
    },
    Difference {
        name: "a folder whose name begins with a dot is none for `!-d`",
        explains: |Pair { site, asked, theirs, ours }| {
            let path = asked.path();
            let to = ours.location.as_ref().and_then(|to| to.split('?').next());
            site.text.contains("if (!-d $request_filename)")
                && path.contains("/.")
                && theirs.status == 401
                && to == Some(path.trim_end_matches('/'))
        },
    },
    Difference {
        name: "what goes on behind a script's name begins with no dot",
        explains: |Pair { site, asked, theirs, ours }| {
            let names = ["SCRIPT_NAME=/index.php/.", "PATH_INFO=/."];
            let body = theirs.body.as_deref().unwrap_or_default();
            // The script may not be told what goes on behind its name.
            let goes_on = site.text.contains("/index.php$request_uri;")
                && theirs.file.as_deref() == Some("index.php");
            asked.path().starts_with("/.")
                && ours.status == 404
                && (goes_on || names.iter().any(|name| body.contains(name)))
        },
    },
    Difference {
        name: "an empty query behind `&` adds nothing",
        explains: |Pair { theirs, ours, .. }| {
            let query = |reply: &Reply| {
                let lines = reply.body.as_deref()?.lines();
                let query = lines.filter_map(|line| line.strip_prefix("QUERY_STRING=")).next()?;
                Some(query.trim_end_matches('&').to_owned())
            };
            theirs.file.is_some()
                && theirs.without(&["QUERY_STRING="]) == ours.without(&["QUERY_STRING="])
                && query(theirs) == query(ours)
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
            let own = without_looking(own);
            let own = own.strip_suffix('$').map_or(own.clone(), |own| format!("{own}(?:/|$)"));
            let expression = RegexBuilder::new(&own).case_insensitive(true).build();
            expression.expect("an expression").is_match(&path)
        }
        Some(("^~", own)) => path.starts_with(own) || own.trim_end_matches('/') == path,
        _ => path.starts_with(head) || head.trim_end_matches('/') == path,
    }
}

/// An expression without what it only looks at, ahead or behind.
fn without_looking(expression: &str) -> String {
    let mut rest = expression.to_owned();
    for start in ["(?!", "(?=", "(?<!"] {
        while let Some((before, after)) = rest.split_once(start) {
            let (_, after) = after.split_once(')').unwrap_or_default();
            rest = format!("{before}{after}");
        }
    }
    rest
}
