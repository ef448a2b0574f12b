//! Who may ask for what.

use http::HeaderMap;
use http::HeaderName;
use http::header::{AUTHORIZATION, HOST};
use tokamak_config::Secret;

use super::route::Right;

/// Whom the configuration lets ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is a Unix socket: its file says who may connect, and they may do everything.
    File,
    /// An address of this machine alone. Any of its users may look, none may change anything.
    Local,
    /// Who knows this token may do everything.
    Token(Secret),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has no token, or a wrong one.
    Token,
    /// There is no token that would allow it.
    NoToken,
    /// It names another host: a page of that host may have made a browser ask here.
    Host,
    /// A page of another site has made a browser ask here.
    OtherSite,
}

/// In which browsers say whose page asks, to addresses of this machine and over HTTPS. No script
/// can set it.
const ASKED_BY: HeaderName = HeaderName::from_static("sec-fetch-site");

impl Access {
    /// Whether a request may do this.
    ///
    /// # Errors
    /// Fails with the reason for a refusal.
    pub fn check(&self, right: Right, headers: &HeaderMap) -> Result<(), Refusal> {
        match self {
            _ if right == Right::Probe => Ok(()),
            // Links to the dashboard are welcome; it has no figures.
            _ if right != Right::Shell && is_of_another_site(headers) => Err(Refusal::OtherSite),
            Access::File => Ok(()),
            Access::Token(_) if right == Right::Shell => Ok(()),
            Access::Token(token) if has_token(headers, token.reveal()) => Ok(()),
            Access::Token(_) => Err(Refusal::Token),
            Access::Local if !names_this_machine(headers) => Err(Refusal::Host),
            Access::Local if right != Right::Change => Ok(()),
            Access::Local => Err(Refusal::NoToken),
        }
    }
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    // The name of the scheme is the same in upper and lower case (RFC 9110 section 11.1).
    let given = headers.get(AUTHORIZATION).and_then(|value| {
        let (scheme, given) = value.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(given)
    });
    given.is_some_and(|given| {
        // In a time that does not tell how much of it is right.
        given.len() == token.len()
            && given.iter().zip(token.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    })
}

fn is_of_another_site(headers: &HeaderMap) -> bool {
    headers.get_all(ASKED_BY).iter().any(|by| by != "same-origin" && by != "none")
}

/// A browser that was led here by a name in the DNS sends that name.
fn names_this_machine(headers: &HeaderMap) -> bool {
    headers.get_all(HOST).iter().all(|host| {
        let Ok(host) = host.to_str() else { return false };
        let is_address = host.parse::<std::net::SocketAddr>().is_ok()
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        is_address
            || host.split(':').next().is_some_and(|host| host.eq_ignore_ascii_case("localhost"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn table() {
        let token = || Access::Token(Secret::new("secret"));
        let right = headers(&[("authorization", "Bearer secret"), ("host", "a.example")]);
        let wrong = headers(&[("authorization", "Bearer secreT")]);
        let basic = headers(&[("authorization", "Basic secret")]);
        let local = headers(&[("host", "127.0.0.1:9080")]);
        let named = headers(&[("host", "localhost:9080")]);
        let loud = headers(&[("host", "LOCALHOST:9080")]);
        let quiet = headers(&[("authorization", "bearer secret")]);
        let six = headers(&[("host", "[::1]:9080")]);
        let foreign = headers(&[("host", "a.example:9080")]);
        let mut both = local.clone();
        both.append("host", "a.example".parse().unwrap());
        let none = HeaderMap::new();
        let own = headers(&[("host", "127.0.0.1:9080"), ("sec-fetch-site", "same-origin")]);
        let typed = headers(&[("host", "127.0.0.1:9080"), ("sec-fetch-site", "none")]);
        let mut other = right.clone();
        other.append("sec-fetch-site", "same-site".parse().unwrap());
        for (access, wanted, headers, verdict) in [
            (Access::File, Right::Change, &foreign, Ok(())),
            (token(), Right::Change, &right, Ok(())),
            (token(), Right::Look, &right, Ok(())),
            (token(), Right::Look, &quiet, Ok(())),
            (Access::Local, Right::Look, &loud, Ok(())),
            (token(), Right::Probe, &none, Ok(())),
            (token(), Right::Look, &none, Err(Refusal::Token)),
            (token(), Right::Look, &wrong, Err(Refusal::Token)),
            (token(), Right::Change, &basic, Err(Refusal::Token)),
            (token(), Right::Shell, &none, Ok(())),
            (token(), Right::Shell, &other, Ok(())),
            (token(), Right::Look, &other, Err(Refusal::OtherSite)),
            (Access::File, Right::Change, &other, Err(Refusal::OtherSite)),
            (Access::File, Right::Shell, &foreign, Ok(())),
            (Access::Local, Right::Look, &own, Ok(())),
            (Access::Local, Right::Look, &typed, Ok(())),
            (Access::Local, Right::Probe, &other, Ok(())),
            (Access::Local, Right::Shell, &local, Ok(())),
            (Access::Local, Right::Shell, &foreign, Err(Refusal::Host)),
            (Access::Local, Right::Probe, &foreign, Ok(())),
            (Access::Local, Right::Look, &none, Ok(())),
            (Access::Local, Right::Look, &local, Ok(())),
            (Access::Local, Right::Look, &named, Ok(())),
            (Access::Local, Right::Look, &six, Ok(())),
            (Access::Local, Right::Look, &foreign, Err(Refusal::Host)),
            (Access::Local, Right::Look, &both, Err(Refusal::Host)),
            (Access::Local, Right::Change, &local, Err(Refusal::NoToken)),
            (Access::Local, Right::Change, &right, Err(Refusal::Host)),
        ] {
            assert_eq!(access.check(wanted, headers), verdict, "{access:?} {wanted:?} {headers:?}");
        }
    }
}
