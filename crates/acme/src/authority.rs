//! One authority, and the account there.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AccountCredentials, CertificateIdentifier, ExternalAccountKey, NewAccount, Problem,
};
use std::time::Duration;
use tokamak_config::Acme;
use tokamak_sys::control::StateFile;

use crate::error::Error;
use crate::http::Client;
use crate::line::SupervisorLink;
use crate::plan::{Cause, Window};
use crate::shared::Shared;

/// How long to leave an authority alone that is busy and does not say for how long.
const BUSY: Duration = Duration::from_secs(600);

/// What is added when an authority's own certificate is not valid now: authorities seldom forget
/// to renew theirs.
const CLOCK: &str = "; is the clock of this machine right?";

/// One authority.
pub struct Authority {
    /// The URL of its directory.
    pub url: String,
    /// Until when it is left alone for all names, in seconds since 1970.
    pub rests: u64,
    client: Client,
    /// The account as it is kept.
    kept: Option<Vec<u8>>,
    /// Whether that could not be stored yet.
    is_unsaved: bool,
    account: Option<Account>,
}

impl Authority {
    /// The authority with this directory, and the account there.
    pub fn new(url: String, kept: Option<Vec<u8>>) -> Authority {
        let client = Client::default();
        Authority { url, rests: 0, client, kept, is_unsaved: false, account: None }
    }

    /// The account, which is made if there is none.
    ///
    /// # Errors
    /// Fails if the authority cannot be asked or refuses, or if the account cannot be stored. A
    /// certificate could not be stored then, either.
    pub async fn account(
        &mut self,
        settings: &Acme,
        line: &SupervisorLink,
        shared: Option<&Shared>,
    ) -> Result<Account, Error> {
        if let Some(account) = self.account.clone() {
            self.save(line).await?;
            return Ok(account);
        }
        if let (None, Some(shared)) = (&self.kept, shared) {
            self.kept = shared.account(&self.url).await?;
            self.is_unsaved = self.kept.is_some();
        }
        let builder = || Account::builder_with_http(Box::new(self.client.clone()));
        let kept = self.kept.as_ref();
        let kept = kept.and_then(|file| serde_json::from_slice::<AccountCredentials>(file).ok());
        if let Some(credentials) = kept {
            let account = builder().from_credentials(credentials).await;
            let account = account.map_err(|error| self.error(error))?;
            self.account = Some(account.clone());
            self.save(line).await?;
            return Ok(account);
        }
        let contact = settings.email.as_ref().map(|address| format!("mailto:{address}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new_account = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let binding = settings.eab.get(&self.url).and_then(|key| external(key.reveal()));
        let made = builder().create(&new_account, self.url.clone(), binding.as_ref()).await;
        let (account, credentials) = made.map_err(|error| self.error(error))?;
        let file = serde_json::to_vec(&credentials).map_err(Error::here)?;
        line.note(false, format!("new account at {}: {}", self.url, account.id())).await;
        if let Some(shared) = shared {
            // If that fails, another node makes an account of its own.
            let _ = shared.keep_account(&self.url, &file).await;
        }
        // Before it is stored: a full disk must not make another account at each try.
        self.account = Some(account.clone());
        (self.kept, self.is_unsaved) = (Some(file), true);
        self.save(line).await?;
        Ok(account)
    }

    /// Stores the account, if it is not stored yet.
    async fn save(&mut self, line: &SupervisorLink) -> Result<(), Error> {
        if let Some(file) = self.kept.as_ref().filter(|_| self.is_unsaved) {
            line.store(StateFile::Account(self.url.clone()), file.clone()).await?;
            self.is_unsaved = false;
        }
        Ok(())
    }

    /// When the authority wants a certificate to be renewed, and when it wants to be asked again.
    ///
    /// # Errors
    /// Fails if it cannot be asked.
    pub async fn window(
        &mut self,
        id: &CertificateIdentifier<'_>,
        settings: &Acme,
        line: &SupervisorLink,
        shared: Option<&Shared>,
    ) -> Result<(Option<Window>, Duration), Error> {
        let account = self.account(settings, line, shared).await?;
        match account.renewal_info(id).await {
            Ok((info, again)) => {
                let seconds = |seconds: i64| u64::try_from(seconds).unwrap_or_default();
                let window = Window {
                    begins: seconds(info.suggested_window.start.unix_timestamp()),
                    ends: seconds(info.suggested_window.end.unix_timestamp()),
                };
                Ok((Some(window), again))
            }
            Err(instant_acme::Error::Unsupported(_)) => Ok((None, Duration::MAX)),
            Err(error) => Err(self.error(error)),
        }
    }

    /// What follows from an error of the library. An account that the authority does not know any
    /// more is forgotten.
    pub fn error(&mut self, error: instant_acme::Error) -> Error {
        let last = self.client.last();
        let problem = match &error {
            instant_acme::Error::Api(problem) => Some(problem),
            _ => None,
        };
        let kind = problem.and_then(kind).unwrap_or_default();
        if kind == "accountDoesNotExist" {
            (self.kept, self.is_unsaved, self.account) = (None, false, None);
        }
        let cause = match (kind, last.status) {
            ("rateLimited", _) | (_, 429 | 503) => Cause::Limited(last.retry_after.unwrap_or(BUSY)),
            ("badNonce" | "serverInternal" | "accountDoesNotExist", _) | (_, 0 | 500..) => {
                Cause::Unavailable
            }
            _ if problem.is_none() => Cause::Unavailable,
            _ => Cause::Refused,
        };
        let text = error.to_string();
        let is_about_time = ["certificate expired", "certificate not valid yet"]
            .iter()
            .any(|part| text.contains(part));
        let advice = if is_about_time { CLOCK } else { "" };
        Error::new(cause, format_args!("{}: {text}{advice}", self.url))
    }
}

/// The last part of the problem's type, as RFC 8555 names it.
fn kind(problem: &Problem) -> Option<&str> {
    problem.r#type.as_deref()?.rsplit(':').next()
}

fn external(key: &str) -> Option<ExternalAccountKey> {
    let (id, key) = key.split_once(':')?;
    let key = URL_SAFE_NO_PAD.decode(key.trim_end_matches('=')).ok()?;
    Some(ExternalAccountKey::new(id.to_owned(), &key))
}
