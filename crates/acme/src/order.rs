//! One order: from a name to its certificate.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Identifier, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tokamak_config::AcmeChallenge;
use tokamak_sys::control::LONGEST_FILE;
use tokamak_tls::{Challenge, Pair, PairFiles};
use tokio::time::timeout;

use crate::authority::Authority;
use crate::board::Board;
use crate::error::Error;
use crate::hook::{self, Record};
use crate::line::SupervisorLink;
use crate::plan::Cause;

/// How often the authority is asked whether it has looked, and for how long. It needs seconds: with
/// a tenth of the time, an order would fail on a slow day; ten times more would hold up all other
/// names.
const PATIENCE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(250))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));

/// The longest that an order may take in all, a hook included. With a tenth, a hook that waits for
/// name servers would be cut short; with ten times more, an authority that hangs would hold up all
/// other names for hours.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// A certificate to order, and how its name is shown to be ours.
pub struct OrderRequest<'a> {
    /// The name.
    pub name: &'a str,
    /// How to show that it is ours.
    pub challenge: AcmeChallenge,
    /// The program for DNS-01.
    pub dns_hook: Option<&'a Path>,
    /// The certificate that the new one is for.
    pub replaces: Option<&'a CertificateIdentifier<'static>>,
}

/// Orders a certificate. The answer is a file with key, certificate and chain, which was checked.
///
/// # Errors
/// Fails with the reason why there is none.
pub async fn place(
    authority: &mut Authority,
    account: &Account,
    request: &OrderRequest<'_>,
    line: &SupervisorLink,
    board: &Board<'_>,
) -> Result<Vec<u8>, Error> {
    let mut order = begin(authority, account, request).await?;
    let mut record = None;
    let outcome = complete(authority, &mut order, request, board, &mut record);
    let outcome = match timeout(LONGEST, outcome).await {
        Ok(outcome) => outcome,
        // The authority may have counted it.
        Err(_) => {
            let seconds = LONGEST.as_secs();
            Err(Error::new(Cause::Refused, format!("the order takes longer than {seconds} s")))
        }
    };
    // The challenge is removed after a success and after a failure. One that stays does no harm,
    // so a failure to remove it does not discard the certificate.
    if let Err(problem) = board.show(Vec::new()).await {
        line.note(true, format!("a challenge may be left for a while: {problem}")).await;
    }
    if let (Some(program), Some(record)) = (request.dns_hook, &record)
        && let Err(problem) = hook::run(program, "remove", record).await
    {
        line.note(true, format!("a TXT record may be left: {problem}")).await;
    }
    outcome
}

async fn begin(
    authority: &mut Authority,
    account: &Account,
    request: &OrderRequest<'_>,
) -> Result<Order, Error> {
    let identifiers = [Identifier::Dns(request.name.to_owned())];
    if let Some(replaced) = request.replaces {
        let order = NewOrder::new(&identifiers).replaces(replaced.clone());
        match account.new_order(&order).await {
            Ok(order) => return Ok(order),
            Err(error) => {
                // The old one is of another authority, or was replaced before, or the authority
                // does not like the word for another reason: that is no reason to have none.
                let is_answer = matches!(
                    error,
                    instant_acme::Error::Api(_) | instant_acme::Error::Unsupported(_)
                );
                let error = authority.error(error);
                if !is_answer || matches!(error.cause, Cause::Limited(_)) {
                    return Err(error);
                }
            }
        }
    }
    account.new_order(&NewOrder::new(&identifiers)).await.map_err(|error| authority.error(error))
}

async fn complete(
    authority: &mut Authority,
    order: &mut Order,
    request: &OrderRequest<'_>,
    board: &Board<'_>,
    record: &mut Option<Record>,
) -> Result<Vec<u8>, Error> {
    show(authority, order, request, board, record).await?;
    let polled = order.poll_ready(&PATIENCE).await;
    if order.state().status == OrderStatus::Invalid {
        return Err(refusal(authority, order, request).await);
    }
    polled.map_err(|error| authority.error(error))?;
    let key = order.finalize().await.map_err(|error| authority.error(error))?;
    let chain = order.poll_certificate(&PATIENCE).await;
    let chain = chain.map_err(|error| authority.error(error))?;
    let file = [key, chain].concat().into_bytes();
    check(request.name, &file)?;
    Ok(file)
}

/// Shows that the name is ours, unless the authority knows that already.
async fn show(
    authority: &mut Authority,
    order: &mut Order,
    request: &OrderRequest<'_>,
    board: &Board<'_>,
    record: &mut Option<Record>,
) -> Result<(), Error> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(|error| authority.error(error))?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => {
                let problem = format!("{}: the authorization is {other:?}", authority.url);
                return Err(Error::new(Cause::Refused, problem));
            }
        }
        let (kind, name) = match request.challenge {
            AcmeChallenge::Http => (ChallengeType::Http01, "http-01"),
            AcmeChallenge::TlsAlpn => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
            AcmeChallenge::Dns => (ChallengeType::Dns01, "dns-01"),
        };
        let Some(mut challenge) = authorization.challenge(kind) else {
            let problem = format!("{} does not offer {name} for {}", authority.url, request.name);
            return Err(Error::new(Cause::Refused, problem));
        };
        let key = challenge.key_authorization();
        match request.challenge {
            AcmeChallenge::Http => {
                let (token, answer) = (challenge.token.clone(), key.as_str().to_owned());
                board.show(vec![Challenge::Http { token, answer }]).await?;
            }
            AcmeChallenge::TlsAlpn => {
                let pair = awaited(request.name, key.digest().as_ref()).map_err(Error::here)?;
                let name = request.name.to_owned();
                board.show(vec![Challenge::TlsAlpn { name, pair }]).await?;
            }
            AcmeChallenge::Dns => {
                let base = request.name.trim_start_matches("*.");
                let name = format!("_acme-challenge.{base}");
                let record = record.insert(Record { name, value: key.dns_value() });
                let program = request.dns_hook.ok_or_else(|| Error::here("no dns_hook is set"))?;
                hook::run(program, "add", record).await.map_err(Error::here)?;
            }
        }
        challenge.set_ready().await.map_err(|error| authority.error(error))?;
    }
    Ok(())
}

/// What the authority has found, and why that does not convince it.
async fn refusal(authority: &Authority, order: &mut Order, request: &OrderRequest<'_>) -> Error {
    let mut found = String::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Ok(state) = authorization.refresh().await {
            let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            found.extend(errors.map(|problem| format!(" {problem}")));
        }
    }
    let advice = match request.challenge {
        AcmeChallenge::Http => "its port 80 has to lead here",
        AcmeChallenge::TlsAlpn => "its port 443 has to lead here, without a proxy that ends TLS",
        AcmeChallenge::Dns => "dns_hook has to return when all name servers have the record",
    };
    let (url, name) = (&authority.url, request.name);
    let problem = format!("{url} does not find that {name} is this server's:{found}; {advice}");
    Error::new(Cause::Refused, problem)
}

/// The certificate that an authority is to find (RFC 8737, 3).
fn awaited(name: &str, digest: &[u8]) -> Result<PairFiles, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.pem().into_bytes();
    Ok(PairFiles { certificate, key: key.serialize_pem().into_bytes() })
}

/// Whether this file is a certificate for the name, with its key, that can be stored and used now.
///
/// # Errors
/// Fails with what is wrong with it.
pub fn check(name: &str, file: &[u8]) -> Result<(), Error> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::new(Cause::Refused, format_args!("the certificate that came is not used: {why}"))
    };
    if file.len() > LONGEST_FILE {
        return Err(wrong(&format!("with its chain it is longer than {LONGEST_FILE} bytes")));
    }
    let pair = Pair::read(file, file).map_err(|error| wrong(&error))?;
    let certificate = pair.certificate;
    if !certificate.names.iter().any(|other| other == name) {
        return Err(wrong(&format!("it is for {}", certificate.names.join(", "))));
    }
    if certificate.not_after <= certificate.not_before {
        return Err(wrong(&"it ends before it begins"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if certificate.has_expired(now) {
        let ends = certificate.valid_until();
        return Err(wrong(&format!("it ended {ends}; is the clock of this machine right?")));
    }
    Ok(())
}
