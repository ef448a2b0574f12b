//! What is written about an application's addresses: where they are, how much each gets, what binds
//! a request to one.

use std::net::SocketAddr;
use std::str::FromStr;

use super::{Bounds, Kind, Value, ValueError, address, did_you_mean, quote, text_of, wrong};
use crate::literal::{KeyValue, Literal};
use crate::model::{Address, AdminAddress, Affinity, Endpoint, Pattern, Scheme};

/// Greatest weight. A larger one would not differ from "nearly all", and sums of weights have to
/// stay far below the range of the arithmetic; with a tenth, an address that gets less than one
/// percent of the requests could not be expressed.
const HEAVIEST: i64 = 1000;

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Endpoint::Unix(path.into()));
        }
        if let Some(name) = text.strip_prefix("srv:").filter(|name| is_name(name)) {
            return Ok(Endpoint::Srv(name.into()));
        }
        match text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            Some((host, Ok(1..))) if is_name(host) || text.parse::<SocketAddr>().is_ok() => {
                Ok(Endpoint::Tcp(text.into()))
            }
            _ => Err(format!(
                "`{text}` is no address; write HOST:PORT as in \"127.0.0.1:9000\", \"srv:NAME\" \
                    or \"unix:/run/app.sock\""
            )),
        }
    }
}

/// Whether a name server can be asked for it.
fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(is_letter);
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(is_label)
}

impl Value for Endpoint {
    const KIND: Kind = Kind::Endpoint;

    fn read(literal: &Literal, _: &Bounds) -> Result<Endpoint, Vec<ValueError>> {
        let text = text_of(literal, "an address such as \"unix:/run/app.sock\"")?;
        text.parse().or_else(wrong)
    }

    fn toml(&self) -> Option<String> {
        quote(&self.to_string())
    }
}

/// Where one socket is: not a service, behind which there may be several.
#[derive(Clone, Debug, PartialEq)]
pub struct Direct(pub Endpoint);

impl Value for Direct {
    const KIND: Kind = Kind::Direct;

    fn read(literal: &Literal, bounds: &Bounds) -> Result<Direct, Vec<ValueError>> {
        match Endpoint::read(literal, bounds)? {
            Endpoint::Srv(name) => {
                wrong(format!("`srv:{name}` is a service; write HOST:PORT or \"unix:PATH\""))
            }
            endpoint => Ok(Direct(endpoint)),
        }
    }

    fn toml(&self) -> Option<String> {
        self.0.toml()
    }
}

impl Value for AdminAddress {
    const KIND: Kind = Kind::Listener;

    fn read(literal: &Literal, _: &Bounds) -> Result<AdminAddress, Vec<ValueError>> {
        let wanted = "an address such as \"127.0.0.1:9080\" or \"unix:/run/tokamak/admin.sock\"";
        let text = text_of(literal, wanted)?;
        match text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            Some(path) => Ok(AdminAddress::Unix(path.into())),
            None => address(text)
                .map(AdminAddress::Tcp)
                .or_else(|problem| wrong(format!("{problem}, or \"unix:PATH\""))),
        }
    }

    fn toml(&self) -> Option<String> {
        match self {
            AdminAddress::Tcp(address) => quote(&address.to_string()),
            AdminAddress::Unix(path) => quote(&format!("unix:{}", path.display())),
        }
    }
}

/// An address without a weight.
fn plain_address(literal: &Literal) -> Result<Address, Vec<ValueError>> {
    let text = text_of(literal, "an address such as \"unix:/run/app.sock\"")?;
    let read = match text.split_once("://") {
        Some(("http", rest)) => http_endpoint(text, rest, 80).map(|found| (Scheme::Http, found)),
        Some(("https", rest)) => http_endpoint(text, rest, 443).map(|found| (Scheme::Https, found)),
        Some((scheme, _)) => Err(format!(
            "`{text}` cannot be asked: `{scheme}` is no protocol of applications here; write \
                \"http://HOST:PORT\""
        )),
        None => match text.strip_prefix("http+") {
            Some(rest) if rest.starts_with("unix:") => {
                rest.parse().map(|endpoint| (Scheme::Http, endpoint))
            }
            _ => text.parse().map(|endpoint| (Scheme::FastCgi, endpoint)),
        },
    };
    let (scheme, endpoint) = read.or_else(wrong)?;
    Ok(Address { scheme, endpoint, weight: 1 })
}

/// Where an application of HTTP listens: on port `usual`, if the URL names none.
fn http_endpoint(url: &str, rest: &str, usual: u16) -> Result<Endpoint, String> {
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err(format!(
            "`{url}` has a path; leave it out, and set `upstream_path` of the route"
        ));
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let with_port = if has_port { authority.to_owned() } else { format!("{authority}:{usual}") };
    with_port
        .parse()
        .map_err(|_| format!("`{url}` names no host; write it as in \"http://127.0.0.1:3000\""))
}

impl Value for Address {
    const KIND: Kind = Kind::Endpoint;

    fn read(literal: &Literal, _: &Bounds) -> Result<Address, Vec<ValueError>> {
        let Literal::Table(entries) = literal else { return plain_address(literal) };
        let (mut found, mut weight) = (None, 1);
        let mut complaints = Vec::new();
        for KeyValue { name, offset, value } in entries {
            let mut report = |problem: String| {
                complaints.push(ValueError { inside: Some((name.clone(), *offset)), problem });
            };
            match (name.as_str(), value) {
                ("address", value) => match plain_address(value) {
                    Ok(read) => found = Some(read),
                    Err(wrong) => wrong.into_iter().for_each(|wrong| report(wrong.problem)),
                },
                ("weight", Literal::Integer(number @ 1..=HEAVIEST)) => {
                    weight = number.unsigned_abs() as u32
                }
                ("weight", other) => {
                    report(format!(
                        "must be a whole number from 1 to {HEAVIEST}, not {}",
                        other.sort()
                    ));
                }
                _ => report(format!("unknown key{}", did_you_mean(name, &["address", "weight"]))),
            }
        }
        match found {
            _ if !complaints.is_empty() => Err(complaints),
            Some(address) => Ok(Address { weight, ..address }),
            None => wrong(
                "a table needs its `address`, as in { address = \"10.0.0.1:9000\", weight = 2 }",
            ),
        }
    }

    fn toml(&self) -> Option<String> {
        let endpoint = match (self.scheme, &self.endpoint) {
            (Scheme::FastCgi, endpoint) => endpoint.toml()?,
            (Scheme::Http, Endpoint::Unix(path)) => {
                quote(&format!("http+unix:{}", path.display()))?
            }
            (Scheme::Http, endpoint) => quote(&format!("http://{endpoint}"))?,
            (Scheme::Https, endpoint) => quote(&format!("https://{endpoint}"))?,
        };
        Some(match self.weight {
            1 => endpoint,
            weight => format!("{{ address = {endpoint}, weight = {weight} }}"),
        })
    }
}

/// Kinds of [`Affinity`] by their names; those with a colon need something behind it.
const KINDS: &[&str] =
    &["cookie:", "header:", "query:", "segment:", "prefix:", "variable:", "user", "client"];

impl Value for Affinity {
    const KIND: Kind = Kind::Affinity;

    fn read(literal: &Literal, _: &Bounds) -> Result<Affinity, Vec<ValueError>> {
        let text = text_of(literal, "what binds a request, such as \"cookie:session\"")?;
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (format!("{kind}:"), rest),
            None => (text.to_owned(), ""),
        };
        if kind.ends_with(':') && rest.is_empty() {
            return wrong(format!(
                "`{text}` needs something behind the colon, as in \"cookie:session\""
            ));
        }
        Ok(match kind.as_str() {
            "cookie:" => Affinity::Cookie(rest.into()),
            "header:" => Affinity::Header(rest.to_ascii_lowercase()),
            "query:" => Affinity::Query(rest.into()),
            "segment:" => match rest.parse() {
                Ok(number @ 1..=100) => Affinity::Segment(number),
                _ => {
                    return wrong(format!(
                        "`{rest}` is no number of a path's part; write 1 to 100"
                    ));
                }
            },
            "prefix:" => match Pattern::new(rest) {
                Ok(pattern) => Affinity::Prefix(pattern),
                Err(problem) => {
                    return wrong(format!("`{rest}` is no regular expression: {problem}"));
                }
            },
            "variable:" => Affinity::Variable(rest.into()),
            "user" => Affinity::User,
            "client" => Affinity::Client,
            _ => {
                let known = "cookie:NAME, header:NAME, query:NAME, segment:N, prefix:REGEX, \
                    variable:NAME, user or client";
                return wrong(format!(
                    "`{text}` is unknown; use {known}{}",
                    did_you_mean(&kind, KINDS)
                ));
            }
        })
    }

    fn toml(&self) -> Option<String> {
        quote(&match self {
            Affinity::Cookie(name) => format!("cookie:{name}"),
            Affinity::Header(name) => format!("header:{name}"),
            Affinity::Query(name) => format!("query:{name}"),
            Affinity::Segment(number) => format!("segment:{number}"),
            Affinity::Prefix(pattern) => format!("prefix:{}", pattern.text()),
            Affinity::Variable(name) => format!("variable:{name}"),
            Affinity::User => "user".into(),
            Affinity::Client => "client".into(),
        })
    }
}
