//! The passwords that rules of a site ask for.

use std::sync::Arc;

use http::HeaderValue;
use tokamak_config as config;

use crate::login::{Passwords, UserFile};
use crate::route::LoginSet;

/// What the rules of one site need to ask for passwords.
pub struct SiteLogins {
    /// In the order of those rules that ask.
    rules: Vec<LoginRule>,
    /// Verifies passwords.
    pub passwords: Arc<Passwords>,
}

impl SiteLogins {
    /// Those of these positions; `None` if one does not exist.
    pub fn of(&self, needed: LoginSet) -> Option<Vec<&LoginRule>> {
        needed.iter().map(|position| self.rules.get(position)).collect()
    }
}

/// What one rule asks for.
pub struct LoginRule {
    /// Who may log in.
    pub file: Arc<UserFile>,
    /// The value of `WWW-Authenticate`.
    pub challenge: HeaderValue,
}

impl SiteLogins {
    /// Those of a site; `None` if no rule asks for a password.
    pub fn new(site: &config::Site, passwords: &Option<Arc<Passwords>>) -> Option<SiteLogins> {
        let passwords = passwords.clone()?;
        let logins = site.rules.iter().filter_map(|rule| rule.login.as_ref());
        let rule = |login: &config::Login| {
            let file = passwords.file(&login.users)?.clone();
            Some(LoginRule { file, challenge: challenge(&login.realm) })
        };
        let rules: Vec<LoginRule> = logins.map(rule).collect::<Option<_>>()?;
        (!rules.is_empty()).then_some(SiteLogins { rules, passwords })
    }
}

/// The value of `WWW-Authenticate` (RFC 7617 section 2).
fn challenge(realm: &str) -> HeaderValue {
    let realm = realm.replace('\\', "\\\\").replace('"', "\\\"");
    let value = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
    // The configuration accepts no control characters, and nothing else is invalid.
    HeaderValue::from_bytes(value.as_bytes())
        .unwrap_or(HeaderValue::from_static("Basic realm=\"Restricted\", charset=\"UTF-8\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_is_quoted() {
        let expected = "Basic realm=\"The \\\"staff\\\" \\\\ ü\", charset=\"UTF-8\"";
        assert_eq!(challenge("The \"staff\" \\ ü").as_bytes(), expected.as_bytes());
    }
}
