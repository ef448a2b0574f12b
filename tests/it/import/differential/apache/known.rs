//! How Apache differs.

use super::super::known::is_folder_without_index;
use super::super::outcome::{Difference, Pair};
use super::super::requests::{Asked, FILES};

pub(super) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "SCRIPT_NAME is that of the script after a rewrite",
        explains: |Pair { theirs, ours, .. }| {
            let names = ["SCRIPT_NAME=", "PATH_INFO="];
            theirs.file.is_some()
                && theirs.fields == ours.fields
                && theirs.without(&names) == ours.without(&names)
        },
    },
    Difference {
        name: "what goes on behind a file's name is for the front controller",
        explains: |pair| {
            let Some(file) = pair.behind() else { return false };
            let is_admin =
                pair.ours.file.as_deref() == Some("admin/index.php") && !file.ends_with(".php");
            // Apache itself answers `OPTIONS` then.
            let lists_methods = pair.asked.method == "OPTIONS" && pair.theirs.status == 200;
            let is_none = matches!(pair.theirs.status, 404 | 405)
                || lists_methods && pair.theirs.file.is_none();
            is_none && (pair.is_entrance() || is_admin)
        },
    },
    Difference {
        name: "a folder without an index file is for the front controller",
        explains: is_folder_without_index,
    },
    Difference {
        name: "a slash behind a script's name is not redirected away",
        explains: |pair| {
            let path = pair.asked.path();
            let to = pair.theirs.location.as_ref().and_then(|to| to.split('?').next());
            to.is_some()
                && to == path.strip_suffix('/')
                && pair.ours.file.is_some()
                && pair.ours.file.as_deref() == pair.behind()
        },
    },
    Difference {
        name: "what a section within opens stays refused",
        explains: |Pair { site, asked, theirs, ours }| {
            let path = asked.path().to_ascii_lowercase();
            let has = |text: &str| site.text.contains(text);
            let is_there = path.starts_with("/docs")
                || path.starts_with("/manual")
                || theirs.file.as_deref() == Some("docs/guide.html");
            let opens = is_there && has("<Files guide.html>\nRequire all granted");
            let data =
                ["<Files secret.txt>\nAllow", "<FilesMatch \"\\.txt$\">\nRequire all granted"];
            let opens = opens || path.starts_with("/data") && data.into_iter().any(has);
            let is_named =
                |file: &str| ["index.php", "other.php"].iter().any(|it| file.ends_with(it));
            let opens = opens
                || has("<FilesMatch \"^(index|other)\\.php$\">\nRequire all granted")
                    && theirs.file.as_deref().is_some_and(is_named);
            let inner = [
                "<Location /admin",
                "<FilesMatch \"^(info|tool)",
                "<Files tool.php>",
                "<FilesMatch \"\\.php$\">\nAuthType",
            ];
            let has_both = path.starts_with("/admin") && inner.into_iter().any(has);
            // What a folder says of all requests comes in place of what is said of some.
            let of_some =
                asked.field.is_some() && has("env") || !asked.reads() && has("<LimitExcept");
            let has_both = has_both || of_some && !theirs.is_refused();
            matches!(ours.status, 401 | 403) && (opens || has_both)
        },
    },
    Difference {
        name: "a section for names is also for what follows a name that is missing",
        explains: |Pair { site, asked, ours, .. }| {
            let path = asked.path();
            let folder = path.trim_end_matches('/').rsplit_once('/').map_or("", |(it, _)| it);
            let is_there = |file: &&str| file.starts_with(&format!("{}/", &folder[1..]));
            let is_missing = !folder.is_empty() && !FILES.iter().any(is_there);
            is_missing && matches!(ours.status, 401 | 403) && site.text.contains("<Files")
        },
    },
    Difference {
        name: "a refusal that ends with a name is also for what goes on behind it",
        explains: |pair| {
            let path = pair.asked.path();
            let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
            folders.contains('.') && matches!(pair.ours.status, 401 | 403)
        },
    },
    Difference {
        name: "what a `RewriteRule` refuses is refused whatever a rule before it does",
        explains: |Pair { site, asked, theirs, ours }| {
            let by_method =
                site.text.contains("%{REQUEST_METHOD}") && matches!(asked.method, "PUT" | "DELETE");
            let by_query = site.text.contains("%{QUERY_STRING} b=") && asked.target.contains("b=");
            // Behind the front controller's rule, which ends them.
            let by_path = ["^(?!docs|admin)", "RewriteRule \\.(php|png)$ - [F]"];
            let by_path = by_path.iter().any(|rule| site.text.contains(rule));
            let by_folder = site.text.contains("RewriteRule ^data/ - [F]")
                && asked.path().starts_with("/data/")
                && theirs.file.as_deref() == Some("index.php");
            ours.status == 403 && (by_method || by_query || by_folder)
                || by_path && matches!(ours.status, 403 | 404)
        },
    },
    Difference {
        name: "index files and error pages are not rewritten",
        explains: |Pair { asked, theirs, ours, .. }| {
            let is_page = |file: &String| file.ends_with(".html");
            (asked.path().ends_with('/') || theirs.status >= 400)
                && theirs.status == ours.status
                && theirs.file.as_deref() == Some("docs/run.php")
                && ours.file.as_ref().is_some_and(is_page)
        },
    },
    Difference {
        name: "error pages of an `.htaccess` are for all refusals",
        explains: |Pair { site, theirs, ours, .. }| {
            let overrides = site.text.split_once("/.htaccess:").map(|(_, overrides)| overrides);
            theirs.status == ours.status
                && ours.status >= 400
                && theirs.file.is_none()
                && overrides.is_some_and(|text| text.contains("ErrorDocument"))
        },
    },
    Difference {
        name: "where scripts do not run, none is missing for the front controller",
        explains: |Pair { site, asked, theirs, ours, .. }| {
            site.text.contains("SetHandler none")
                && asked.path().contains(".php")
                && theirs.file.as_deref() == Some("index.php")
                && ours.status == 404
        },
    },
    Difference {
        name: "fields of a folder come behind those of files",
        explains: |Pair { site, theirs, ours, .. }| {
            site.text.contains("Header set Cache-Control private")
                && theirs.status == ours.status
                && theirs.body == ours.body
                && ours.field("cache-control").any(|value| value == "private")
        },
    },
    Difference {
        name: "`THE_REQUEST` is seen decoded",
        explains: |Pair { site, asked, theirs, ours }| {
            site.text.contains("%{THE_REQUEST}")
                && is_raw(asked)
                && theirs.file.as_deref() == Some("index.php")
                && ours.location.as_ref().is_some_and(|to| to.split('?').next() == Some("/"))
        },
    },
    Difference {
        name: "expressions see `REQUEST_URI` decoded, and without `..`",
        explains: |Pair { site, asked, theirs, ours }| {
            site.text.contains("%{REQUEST_URI} =~")
                && is_raw(asked)
                && theirs.status == 200
                && ours.status == 403
        },
    },
    Difference {
        name: "a rewrite is asked again for what one leads to, if that has no groups",
        explains: |Pair { site, asked, ours, .. }| {
            site.text.contains("RewriteRule ^p/(.*)$ /docs/$1")
                && asked.path().starts_with("/p/")
                && ours.status == 404
        },
    },
    Difference {
        name: "a redirect has the query of the client",
        explains: |Pair { site, asked, theirs, ours }| {
            let path = |to: &Option<String>| {
                to.as_ref().map(|to| to.split('?').next().unwrap_or_default().to_owned())
            };
            let query = asked.target.split_once('?').map_or("", |(_, query)| query);
            site.text.contains(BY_QUERY)
                && ours.location.is_some()
                && path(&theirs.location) == path(&ours.location)
                && ours.location.as_ref().is_some_and(|to| to.ends_with(query))
        },
    },
    Difference {
        name: "two slashes in a redirect are one",
        explains: |Pair { theirs, ours, .. }| {
            let to = theirs.location.as_ref().map(|to| to.replace("//", "/"));
            theirs.status == ours.status && to.is_some() && to == ours.location
        },
    },
    Difference {
        name: "of two redirects for a path, that of the folder around it comes first",
        explains: |Pair { site, asked, theirs, ours }| {
            theirs.location.is_some()
                && ours.location.is_some()
                && asked.path().starts_with("/old")
                && site.text.contains("old/.htaccess:")
        },
    },
    Difference {
        name: "`SetHandler none` of a folder is for its scripts, too",
        explains: |Pair { site, asked, ours, .. }| {
            site.text.contains("\nSetHandler none")
                && asked.path().starts_with("/uploads/")
                && asked.path().contains(".php")
                && ours.status == 403
        },
    },
    Difference {
        name: "fields of paths are not for what goes on behind a script's name",
        explains: |pair| {
            let Pair { theirs, ours, .. } = pair;
            let has_more = |body: &String| body.contains("\nPATH_INFO=/");
            let is_more = pair.is_behind() || theirs.body.as_ref().is_some_and(has_more);
            is_more && theirs.status == ours.status && theirs.body == ours.body
        },
    },
    Difference {
        name: "what `ProxyPassMatch` takes is refused and has fields as other paths",
        explains: |Pair { site, asked, theirs, ours }| {
            let is_script = |file: &String| file.ends_with(".php");
            let is_page = (theirs.status, &theirs.body) == (ours.status, &ours.body)
                && theirs.file.as_ref().is_some_and(is_script);
            // A folder's index file may be a script.
            let is_for_scripts = asked.path().contains(".php")
                || asked.path().ends_with('/')
                || theirs.file.as_ref().is_some_and(is_script);
            let is_refused = is_for_scripts && ours.is_refused();
            site.text.contains("ProxyPassMatch") && (is_refused || is_page)
        },
    },
    Difference {
        name: "a rewrite takes a slash away before a password is asked for",
        explains: |Pair { asked, theirs, ours, .. }| {
            let without = asked.path().trim_end_matches('/').to_owned();
            let is_same = |to: &String| to.split('?').next() == Some(&*without);
            theirs.status == 401
                && ours.status == 301
                && ours.location.as_ref().is_some_and(is_same)
        },
    },
    Difference {
        name: "redirects come before what `ProxyPassMatch` takes",
        explains: |Pair { site, asked, theirs, ours }| {
            site.text.contains("ProxyPassMatch")
                && asked.path().contains(".php")
                && (theirs.is_refused() || theirs.file.is_some() && site.text.contains(BY_QUERY))
                && (300..400).contains(&ours.status)
        },
    },
    Difference {
        name: "`FallbackResource` is for scripts that are missing, too",
        explains: |pair| {
            pair.site.text.contains("FallbackResource")
                && pair.asked.path().contains(".php")
                && pair.theirs.status == 404
                && pair.is_entrance()
        },
    },
    Difference {
        name: "redirects come before the front controller",
        explains: |Pair { asked, theirs, ours, .. }| {
            asked.path().starts_with("/blog/")
                && theirs.file.as_deref() == Some("index.php")
                && ours.status == 301
        },
    },
    Difference {
        name: "redirects are for the paths that clients ask for",
        explains: |Pair { site, asked, theirs, ours }| {
            let leads_there = |to: &String| to.starts_with("/news/");
            site.text.contains(BY_QUERY)
                && asked.path().starts_with("/old/")
                && theirs.location.as_ref().is_some_and(leads_there)
                && ours.file.as_deref() == Some("docs/guide.html")
        },
    },
    Difference {
        name: "redirects come before the refusal of a missing path for its first name",
        explains: |Pair { site, asked, theirs, ours }| {
            site.text.contains("<FilesMatch \"^\\.|^(?!docs)[^.]+$")
                && asked.path().starts_with("/blog/")
                && theirs.status == 403
                && ours.status == 301
        },
    },
    Difference {
        name: "OPTIONS is asked of scripts alone",
        explains: |pair| {
            pair.asked.method == "OPTIONS"
                && pair.theirs.file.is_none()
                && pair.theirs.status == 200
        },
    },
];

/// Those of them that serve something else.
pub(super) const OPENINGS: &[&str] = &[
    "what goes on behind a file's name is for the front controller",
    "a slash behind a script's name is not redirected away",
    "a rewrite takes a slash away before a password is asked for",
    "redirects come before what `ProxyPassMatch` takes",
    "redirects are for the paths that clients ask for",
    "redirects come before the refusal of a missing path for its first name",
];

/// A redirect of an `<If>`.
const BY_QUERY: &str = "<If \"%{QUERY_STRING} =~ /a=/\">\nRedirect";

/// Whether the path that was asked for is another one after decoding.
fn is_raw(asked: &Asked) -> bool {
    ["%", "//", ".."].iter().any(|it| asked.target.contains(it))
}
