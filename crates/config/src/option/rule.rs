//! What is set for a rule of a site.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::{ClientId, Network, Rate, Satisfy, Serve};
use crate::unit::{HOUR, SECOND};
use crate::value::{ANY, Auto, Count, Size, Text, within};

section! {
    /// What holds for paths of the site above it: redirects, rewrites, who and what is refused,
    /// response headers. Repeat `[[site.rule]]` for each; all that fit count, in the order of the
    /// file, also below the site's routes. The path is compared decoded, with `.`, `..` and double
    /// slashes resolved. What refuses is compared without regard to upper and lower case.
    Rule "site.rule" {
        /// Paths for which it holds: `"/app"` is `/app` and all below it, `"/app*"` all that begins
        /// with `/app`. Without `path`, `pattern` and `extension`, it holds for the whole site.
        path: Vec<Text> = "", ANY, Live;
        /// A regular expression that is found in the path, as in `"^/old/(.*)$"`. What its groups
        /// find is `$1`, `$2`, … in `redirect` and `rewrite`.
        pattern: Option<Text> = "", ANY, Live;
        /// Further regular expressions, all of which have to be found in the path, too. With `!` in
        /// front of one, the rest of it must not be found there.
        and_pattern: Vec<Text> = "", ANY, Live;
        /// Extensions such as `".png"` that the path ends in. Extensions of scripts such as
        /// `".php"` may also stand in front of a slash, where `PATH_INFO` begins; with `deny`,
        /// `allow`, `auth_users`, `scripts` or `serve = "files"` all extensions may.
        extension: Vec<Text> = "", ANY, Live;
        /// Paths for which it does not hold although the others fit, as those of `path`, and in
        /// this spelling alone.
        except: Vec<Text> = "", ANY, Live;
        /// Media types such as `"text/html"` or `"image/*"` of responses whose headers are changed.
        content_type: Vec<Text> = "", ANY, Live;
        /// A regular expression that is found in the method, as in `"^POST$"`. With `!` in
        /// front of this one, of `query` or of one of `header`, the rest must not be found. These
        /// three are for rules with `redirect`, `rewrite`, `allow`, `deny` or `auth_users`.
        method: Option<Text> = "", ANY, Live;
        /// A regular expression that is found in the query as the client sent it, without the
        /// question mark. Without a query it is empty.
        query: Option<Text> = "", ANY, Live;
        /// Names of header fields of the request, and regular expressions that are found in their
        /// values, as in `{ "User-Agent" = "(?i)bot" }`. A field that is not there is empty.
        header: BTreeMap<String, String> = "", ANY, Live;
        /// Whether it redirects and rewrites only paths without a file or folder.
        unless_file: bool = "false", ANY, Live;
        /// Whether it redirects and rewrites only paths with a file or folder.
        if_file: bool = "false", ANY, Live;
        /// Whether a folder is there for `unless_file` and `if_file`. With `false` only files
        /// and scripts are, as for `-f` of nginx: no path that ends with a slash, or goes on behind
        /// the name of a script.
        folders_are_files: bool = "true", ANY, Live;
        /// Where clients are sent instead: a path, or a URL with scheme and host. The query is
        /// kept, unless this ends with `?`.
        redirect: Option<Text> = "", ANY, Live;
        /// The path that is served instead, perhaps with query parameters, in front of those of the
        /// request unless this ends with `?`. `REQUEST_URI` stays. The first rewrite that fits
        /// counts; then what the other rules refuse is asked again, for the new path.
        rewrite: Option<Text> = "", ANY, Live;
        /// The status of a redirect (301, 302, 303, 307 or 308) or of a refusal (403, 404 or 410);
        /// `"auto"` is 301 or 403.
        status: Auto<Count> = "auto", within(301, 410), Live;
        /// Clients that are not refused, as addresses or networks (`"10.0.0.0/8"`). Without `deny`,
        /// all others are refused.
        allow: Vec<Network> = "", ANY, Live;
        /// Clients that are refused, as addresses, networks or `"all"`, unless `allow` has them.
        deny: Vec<Network> = "", ANY, Live;
        /// Whether `deny` and `allow` are only for the path that the client asks for. What a
        /// rewrite, an index file or the front controller leads to is served then, as by nginx's
        /// `internal`.
        internal: bool = "false", ANY, Live;
        /// A file of users as `htpasswd` writes it; clients need the name and password of one of
        /// them (basic authentication), for each rule that fits. It is read as the user that starts
        /// the server, and again when it changes.
        auth_users: Option<PathBuf> = "", ANY, Live;
        /// What browsers say the password is for; if not set, `Restricted`.
        auth_realm: Option<Text> = "", ANY, Live;
        /// What a client needs if a rule has `auth_users` and `allow` or `deny`: `"all"`, a
        /// password and an address that is not refused; `"any"`, one of them.
        satisfy: Satisfy = "all", ANY, Live;
        /// The only scripts that may run, as paths such as `"/index.php"`; others are refused. If
        /// several rules that fit have such a list, a script must be in all of them.
        scripts: Vec<Text> = "", ANY, Live;
        /// What is served: `"all"`; `"existing"`, which is all but the front controller; `"files"`,
        /// where nothing runs either. With the last two, a folder without index file is 403, unless
        /// it is listed. The strictest of the rules that fit counts.
        serve: Serve = "all", ANY, Live;
        /// Whether folders without an index file are listed, whatever `index_listing` of the site
        /// says; not if any rule that fits says `false`.
        index_listing: Option<bool> = "", ANY, Live;
        /// Requests of one client in a time, for the path that it asks for; more are answered 429.
        /// Each rule has a limit of its own, and all that fit count.
        rate: Option<Rate> = "", ANY, Live;
        /// Requests that a client may send at once beyond `rate`.
        burst: Count = "0", within(0, 1_000_000), Live;
        /// Requests of one client that are served at the same time; more are answered 429. Each
        /// stream of HTTP/2 counts.
        connections: Count = "0", within(1, 1_000_000).or_zero("any number"), Live;
        /// What a client is for `rate` and `connections`: an address (of IPv6 a network of 64
        /// bits), or the value of a header field that a server in front has checked.
        limit_by: ClientId = "address", ANY, Live;
        /// Whether what `rate` and `connections` would refuse is only logged and counted.
        limit_dry_run: bool = "false", ANY, Live;
        /// Most bytes of a request's body, in place of `limits.body`. Of several rules that fit,
        /// the last one with it counts.
        body: Option<Size> = "", ANY, Live;
        /// Whether requests are written to the access log; not if any rule that fits says `false`.
        log: bool = "true", ANY, Live;
        /// Whether headers are changed by the path of what answers in the end, not by the path that
        /// was asked for: by that of the script, without `PATH_INFO`, or of the index file. Then
        /// `path`, `pattern` and `extension` do not see which page a front controller makes.
        of_answer: bool = "false", ANY, Live;
        /// Whether no later rule with `of_answer` holds where this one does, as nginx chooses one
        /// `location`.
        last: bool = "false", ANY, Live;
        /// Response headers that are set, in place of any of these names.
        set_headers: BTreeMap<String, String> = "", ANY, Live;
        /// Response headers that are added.
        add_headers: BTreeMap<String, String> = "", ANY, Live;
        /// Response headers that are removed, from all responses.
        remove_headers: Vec<Text> = "", ANY, Live;
        /// The `Cache-Control` that is set.
        cache_control: Option<Text> = "", ANY, Live;
        /// How long browsers may keep a response: sets `Expires`, and `Cache-Control` unless
        /// `cache_control` does.
        expires: Option<Duration> = "", within(SECOND, 8760 * HOUR), Live;
        /// Whether `cache_control` and `expires` leave a response alone that says by itself how
        /// long it may be kept, with `Cache-Control` or `Expires`.
        keep_own: bool = "false", ANY, Live;
        /// Whether headers are set and added in responses with a status from 400, too.
        always: bool = "false", ANY, Live;
    }
}
