//! What a request wants, in the words of the control socket.

use http::{Method, Uri};
use percent_encoding::percent_decode_str;

/// What a request may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Hear whether the server lives and is ready.
    Probe,
    /// Get the dashboard's page, which has no figures itself.
    Shell,
    /// See how it is doing.
    Look,
    /// Change something.
    Change,
}

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminRequest {
    /// To hear that there is somebody.
    Live,
    /// To hear whether requests to all sites can be answered.
    Ready,
    /// The metrics.
    Metrics,
    /// The dashboard.
    Page,
    /// What the dashboard shows.
    Figures,
    /// A profile of PHP workers.
    Profile(ProfileOrder),
    /// The answer to this command.
    Command {
        /// As on the control socket, without the end of the line.
        line: String,
        /// What it may do.
        right: Right,
        /// Whether the answer is JSON.
        json: bool,
    },
}

/// Which profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOrder {
    /// Which site; all if absent.
    pub site: Option<String>,
    /// Only of requests whose path begins so.
    pub prefix: String,
    /// For how long.
    pub seconds: u32,
    /// What it becomes.
    pub format: ProfileFormat,
}

/// What a profile becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// A page with a flame graph.
    Html,
    /// A line for each stack.
    Folded,
    /// What `go tool pprof` reads.
    Pprof,
}

/// Why a request cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is nothing of this name.
    Path,
    /// It wants this method.
    Method(&'static str),
    /// Something is missing or malformed, for people.
    Query(&'static str),
}

impl AdminRequest {
    /// What it may do.
    pub fn right(&self) -> Right {
        match self {
            AdminRequest::Live | AdminRequest::Ready => Right::Probe,
            AdminRequest::Page => Right::Shell,
            AdminRequest::Metrics | AdminRequest::Figures | AdminRequest::Profile(_) => Right::Look,
            AdminRequest::Command { right, .. } => *right,
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// Fails if there is no such request.
    pub fn of(method: &Method, uri: &Uri) -> Result<AdminRequest, Wrong> {
        let look = |admin_request: AdminRequest| {
            let is_safe = matches!(*method, Method::GET | Method::HEAD);
            if is_safe { Ok(admin_request) } else { Err(Wrong::Method("GET, HEAD")) }
        };
        let command =
            |line: &str, right, json| AdminRequest::Command { line: line.into(), right, json };
        let query = uri.query().unwrap_or("");
        let change = match uri.path() {
            "/live" => return look(AdminRequest::Live),
            "/metrics" => return look(AdminRequest::Metrics),
            "/" => return look(AdminRequest::Page),
            "/dashboard.json" => return look(AdminRequest::Figures),
            "/ready" => return look(AdminRequest::Ready),
            "/status" => return look(command("status json", Right::Look, true)),
            // HEAD would take a profile for nothing.
            "/profile" if method != Method::GET => return Err(Wrong::Method("GET")),
            "/profile" => {
                let pairs = pairs(query).ok_or(Wrong::Query(CONTROL))?;
                return profile(&pairs).map(AdminRequest::Profile).map_err(Wrong::Query);
            }
            "/reload" => reload,
            "/purge" => purge,
            "/drain" => drain,
            _ => return Err(Wrong::Path),
        };
        if method != Method::POST {
            return Err(Wrong::Method("POST"));
        }
        let pairs = pairs(query).ok_or(Wrong::Query(CONTROL))?;
        let (line, json) = change(&pairs).map_err(Wrong::Query)?;
        if line.len() > MOST_COMMAND {
            return Err(Wrong::Query("the query is too long"));
        }
        Ok(AdminRequest::Command { line, right: Right::Change, json })
    }
}

/// What is wrong with a query that [`pairs`] does not read.
const CONTROL: &str = "the query has control characters";

/// Bytes of a command: a message to the supervisor takes twice as much.
const MOST_COMMAND: usize = 2048;

type Pairs = [(String, String)];
type Change = Result<(String, bool), &'static str>;

fn reload(pairs: &Pairs) -> Change {
    match pairs {
        [] => Ok(("reload".into(), false)),
        // A blank name would be no name for the supervisor, which then reloads everything.
        [(key, site)] if key == "site" && !site.trim().is_empty() => {
            Ok((format!("reload\t{site}"), false))
        }
        _ => Err("/reload takes `site` or nothing"),
    }
}

fn purge(pairs: &Pairs) -> Change {
    match pairs {
        [(key, what)] if key == "all" && what.is_empty() => {
            Ok(("cache\tjson\tpurge\tall".into(), true))
        }
        [(key, what)] if matches!(&key[..], "url" | "prefix" | "tag") && !what.is_empty() => {
            Ok((format!("cache\tjson\tpurge\t{key}\t{what}"), true))
        }
        _ => Err("/purge takes one of `all`, `url`, `prefix` and `tag`"),
    }
}

fn drain(pairs: &Pairs) -> Change {
    let find = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    match (find("upstream"), find("address"), pairs.len()) {
        (Some(name), Some(address), 2) => {
            Ok((format!("upstream\tjson\tdrain\t{name}\t{address}"), true))
        }
        _ => Err("/drain takes `upstream` and `address`"),
    }
}

/// Seconds of a profile: of ten times more, the client would wait for ten minutes, and a tenth is
/// too short to catch what happens seldom.
const LONGEST_PROFILE: u32 = 60;
/// Seconds of a profile unless its query says otherwise, as of `tokamak profile`.
const USUAL_PROFILE: u32 = 10;
/// Bytes of a path's beginning or of a site's name in the query of a profile; both together with
/// the rest fit into a command.
const MOST_WORD: usize = 960;

fn profile(pairs: &Pairs) -> Result<ProfileOrder, &'static str> {
    let mut order = ProfileOrder {
        site: None,
        prefix: String::new(),
        seconds: USUAL_PROFILE,
        format: ProfileFormat::Html,
    };
    let mut seen = Vec::new();
    for (key, value) in pairs {
        if seen.contains(key) {
            return Err("/profile takes each of its words once");
        }
        seen.push(key.clone());
        match &key[..] {
            _ if value.len() > MOST_WORD => return Err("the query is too long"),
            "seconds" => {
                let seconds = value.parse().ok();
                let fits = seconds.filter(|seconds| (1..=LONGEST_PROFILE).contains(seconds));
                order.seconds = fits.ok_or("`seconds` is a whole number, 1 to 60")?;
            }
            // As if it had not been there: a form sends fields that are not filled in.
            "site" => order.site = Some(value.clone()).filter(|site| !site.is_empty()),
            "url" if value.is_empty() || value.starts_with('/') => order.prefix = value.clone(),
            "url" => return Err("`url` is the beginning of a path, with / as its first character"),
            "format" => {
                order.format = match &value[..] {
                    "html" => ProfileFormat::Html,
                    "folded" => ProfileFormat::Folded,
                    "pprof" => ProfileFormat::Pprof,
                    _ => return Err("`format` is html, folded or pprof"),
                }
            }
            _ => return Err("/profile takes `seconds`, `site`, `url` and `format`"),
        }
    }
    Ok(order)
}

/// The pairs of a query; none, if there is a control character: it could end a word of a command.
fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let decoded = |text: &str| {
        let text = text.replace('+', " ");
        let text = percent_decode_str(&text).decode_utf8().ok()?.into_owned();
        (!text.chars().any(char::is_control)).then_some(text)
    };
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            Some((decoded(key)?, decoded(value)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(method: Method, target: &str) -> Result<AdminRequest, Wrong> {
        AdminRequest::of(&method, &target.parse().unwrap())
    }

    #[test]
    fn what_is_shown_and_what_is_changed() {
        let command =
            |line: &str, right, json| Ok(AdminRequest::Command { line: line.into(), right, json });
        let profile = |site: Option<&str>, prefix: &str, seconds, format| {
            let site = site.map(str::to_owned);
            Ok(AdminRequest::Profile(ProfileOrder { site, prefix: prefix.into(), seconds, format }))
        };
        for (method, target, result) in [
            (Method::GET, "/live", Ok(AdminRequest::Live)),
            (Method::HEAD, "/ready", Ok(AdminRequest::Ready)),
            (Method::GET, "/metrics", Ok(AdminRequest::Metrics)),
            (Method::GET, "/dashboard.json", Ok(AdminRequest::Figures)),
            (Method::GET, "/status?x", command("status json", Right::Look, true)),
            (Method::POST, "/reload", command("reload", Right::Change, false)),
            (Method::POST, "/reload?site=a%20b", command("reload\ta b", Right::Change, false)),
            (Method::POST, "/purge?all", command("cache\tjson\tpurge\tall", Right::Change, true)),
            (
                Method::POST,
                "/purge?url=http%3A%2F%2Fa%2Fb%3Fc%26d",
                command("cache\tjson\tpurge\turl\thttp://a/b?c&d", Right::Change, true),
            ),
            (
                Method::POST,
                "/drain?upstream=app&address=unix:/run/a",
                command("upstream\tjson\tdrain\tapp\tunix:/run/a", Right::Change, true),
            ),
            (Method::GET, "/profile", profile(None, "", 10, ProfileFormat::Html)),
            (
                Method::GET,
                "/profile?seconds=60&site=a%20b&url=%2Fshop%2F&format=pprof",
                profile(Some("a b"), "/shop/", 60, ProfileFormat::Pprof),
            ),
            (
                Method::GET,
                "/profile?site=&url=&format=folded",
                profile(None, "", 10, ProfileFormat::Folded),
            ),
            (Method::HEAD, "/profile", Err(Wrong::Method("GET"))),
            (Method::POST, "/profile", Err(Wrong::Method("GET"))),
            (Method::GET, "/?anything", Ok(AdminRequest::Page)),
            (Method::GET, "/index.html", Err(Wrong::Path)),
            (Method::POST, "/", Err(Wrong::Method("GET, HEAD"))),
            (Method::GET, "/reload", Err(Wrong::Method("POST"))),
            (Method::POST, "/metrics", Err(Wrong::Method("GET, HEAD"))),
            (Method::POST, "/dashboard.json", Err(Wrong::Method("GET, HEAD"))),
            (Method::POST, "/status", Err(Wrong::Method("GET, HEAD"))),
        ] {
            assert_eq!(parsed(method, target), result, "{target}");
        }
        for target in [
            "/profile?seconds=0",
            "/profile?seconds=61",
            "/profile?seconds=1.5",
            "/profile?seconds=",
            "/profile?seconds=1&seconds=2",
            "/profile?url=shop",
            "/profile?url=/%09",
            "/profile?format=svg",
            "/profile?rate=1000",
            &format!("/profile?site={}", "x".repeat(MOST_WORD + 1)),
        ] {
            let result = parsed(Method::GET, target);
            assert!(matches!(result, Err(Wrong::Query(_))), "{target}: {result:?}");
        }
        for target in [
            "/reload?all",
            "/reload?site=a%09b",
            "/reload?site=%FF",
            "/reload?site=",
            "/reload?site=%20",
            &format!("/purge?prefix={}", "x".repeat(MOST_COMMAND)),
            "/purge",
            "/purge?all&tag=a",
            "/purge?url=",
            "/drain?upstream=a",
            "/drain?upstream=a&address=b&weight=1",
        ] {
            let result = parsed(Method::POST, target);
            assert!(matches!(result, Err(Wrong::Query(_))), "{target}: {result:?}");
        }
    }
}
