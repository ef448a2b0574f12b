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
pub enum Wish {
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

impl Wish {
    /// What it may do.
    pub fn right(&self) -> Right {
        match self {
            Wish::Live | Wish::Ready => Right::Probe,
            Wish::Page => Right::Shell,
            Wish::Metrics | Wish::Figures => Right::Look,
            Wish::Command { right, .. } => *right,
        }
    }

    /// Reads a request.
    ///
    /// # Errors
    /// Fails if there is no such request.
    pub fn of(method: &Method, uri: &Uri) -> Result<Wish, Wrong> {
        let look = |wish: Wish| {
            let is_safe = matches!(*method, Method::GET | Method::HEAD);
            if is_safe { Ok(wish) } else { Err(Wrong::Method("GET, HEAD")) }
        };
        let command = |line: &str, right, json| Wish::Command { line: line.into(), right, json };
        let query = uri.query().unwrap_or("");
        let change = match uri.path() {
            "/live" => return look(Wish::Live),
            "/metrics" => return look(Wish::Metrics),
            "/" => return look(Wish::Page),
            "/dashboard.json" => return look(Wish::Figures),
            "/ready" => return look(Wish::Ready),
            "/status" => return look(command("status json", Right::Look, true)),
            "/reload" => reload,
            "/purge" => purge,
            "/drain" => drain,
            _ => return Err(Wrong::Path),
        };
        if method != Method::POST {
            return Err(Wrong::Method("POST"));
        }
        let pairs = pairs(query).ok_or(Wrong::Query("the query has control characters"))?;
        let (line, json) = change(&pairs).map_err(Wrong::Query)?;
        if line.len() > MOST_COMMAND {
            return Err(Wrong::Query("the query is too long"));
        }
        Ok(Wish::Command { line, right: Right::Change, json })
    }
}

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

    fn wish(method: Method, target: &str) -> Result<Wish, Wrong> {
        Wish::of(&method, &target.parse().unwrap())
    }

    #[test]
    fn what_is_shown_and_what_is_changed() {
        let command =
            |line: &str, right, json| Ok(Wish::Command { line: line.into(), right, json });
        for (method, target, result) in [
            (Method::GET, "/live", Ok(Wish::Live)),
            (Method::HEAD, "/ready", Ok(Wish::Ready)),
            (Method::GET, "/metrics", Ok(Wish::Metrics)),
            (Method::GET, "/dashboard.json", Ok(Wish::Figures)),
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
            (Method::GET, "/?anything", Ok(Wish::Page)),
            (Method::GET, "/index.html", Err(Wrong::Path)),
            (Method::POST, "/", Err(Wrong::Method("GET, HEAD"))),
            (Method::GET, "/reload", Err(Wrong::Method("POST"))),
            (Method::POST, "/metrics", Err(Wrong::Method("GET, HEAD"))),
            (Method::POST, "/dashboard.json", Err(Wrong::Method("GET, HEAD"))),
            (Method::POST, "/status", Err(Wrong::Method("GET, HEAD"))),
        ] {
            assert_eq!(wish(method, target), result, "{target}");
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
            let result = wish(Method::POST, target);
            assert!(matches!(result, Err(Wrong::Query(_))), "{target}: {result:?}");
        }
    }
}
