//! The password that a client needs for a path: looked at at once if it is known, and verified on
//! another thread if it is not.

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Request};
use tokamak_auth::Login;

use super::error_page::Refusal;
use crate::backend::Arrival;
use crate::backend::cgi::Variables;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::log;
use crate::login::NoLogin;
use crate::route::LoginSet;
use crate::site::Site;
use crate::site::logins::LoginRule;

/// Bytes of a name in the log at most. Some people type their password first.
const LONGEST_NAME: usize = 64;

/// What can be said of a request at once.
pub enum Checked {
    /// Its login is known. The variables of it for applications.
    Granted(Variables),
    /// It has none.
    Refused(Refusal),
    /// Its login has to be verified.
    Unknown,
}

/// Looks at the login of a request for a path on which these rules (of
/// [`crate::site::logins::SiteLogins`]) ask for one.
pub fn check(site: &Site, caller: &Caller, headers: &HeaderMap, needed: LoginSet) -> Checked {
    // This cannot happen; if it does, every login is refused.
    let found = site.logins.as_ref().and_then(|logins| Some((logins, logins.of(needed)?)));
    let Some((logins, rules)) = found else {
        return Checked::Refused(Failure::Forbidden.into());
    };
    match (login(headers), rules.first()) {
        (Some(login), _) => {
            let client = caller.addresses().peer.ip();
            let is_known = logins.passwords.look(client).is_ok()
                && rules.iter().all(|rule| rule.file.has_verified(&login));
            match is_known {
                true => Checked::Granted(variables(&login)),
                false => Checked::Unknown,
            }
        }
        (None, Some(rule)) => Checked::Refused(unauthorized(rule)),
        (None, None) => Checked::Refused(Failure::Forbidden.into()),
    }
}

/// Verifies the login of a request. Returns the variables of it for applications.
///
/// # Errors
/// Fails with the failure for the client. The log has been written.
pub async fn verify(
    arrival: Arrival<'_>,
    request: &Request<()>,
    needed: LoginSet,
) -> Result<Variables, Refusal> {
    let Arrival { site, caller, .. } = arrival;
    match check(site, caller, request.headers(), needed) {
        Checked::Granted(variables) => return Ok(variables),
        Checked::Refused(refusal) => return Err(refusal),
        Checked::Unknown => {}
    }
    let (Some(logins), Some(login)) = (&site.logins, login(request.headers())) else {
        return Err(Failure::Forbidden.into());
    };
    let client = caller.addresses();
    let rules = logins.of(needed).unwrap_or_default();
    for rule in rules {
        let verified = logins.passwords.verify(&rule.file, &login, client.peer.ip());
        let Err(refused) = verified.await else { continue };
        let refusal = match refused {
            NoLogin::Wrong => unauthorized(rule),
            NoLogin::TooMany(wait) => {
                logins.passwords.note_too_many(site.index);
                Refusal::later(Failure::TooManyRequests, wait)
            }
            NoLogin::Busy => Failure::PasswordsBusy.into(),
        };
        let name = login.name.escape_ascii().to_string();
        let shown = &name[..name.len().min(LONGEST_NAME)];
        let reason = match refused {
            NoLogin::Wrong => format!("login refused: {} as {shown}", client.text().peer),
            NoLogin::TooMany(_) => {
                format!("limit exceeded: {} sends too many wrong passwords", client.text().peer)
            }
            NoLogin::Busy => "too many passwords are being verified".to_owned(),
        };
        log::failed(&site.config.name, refusal.failure, &reason, request);
        return Err(refusal);
    }
    Ok(variables(&login))
}

/// What a client says who it is. Of two fields an application could see the other one.
fn login(headers: &HeaderMap) -> Option<Login> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let field = fields.next().filter(|_| fields.next().is_none())?;
    Login::read(field.as_bytes())
}

fn variables(login: &Login) -> Variables {
    // It has no control characters, so it is a valid value.
    let name = HeaderValue::from_bytes(&login.name).ok();
    let name = name.map(|name| ("REMOTE_USER".to_owned(), name));
    let kind = ("AUTH_TYPE".to_owned(), HeaderValue::from_static("Basic"));
    name.into_iter().chain([kind]).collect()
}

fn unauthorized(rule: &LoginRule) -> Refusal {
    let header = Some((WWW_AUTHENTICATE, rule.challenge.clone()));
    Refusal { failure: Failure::Unauthorized, header }
}
