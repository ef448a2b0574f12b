//! Keys and certificates as texts (PEM).

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DnType, Error, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use time::OffsetDateTime;
use tokamak_tls::{Certificate, Pair};

/// Clocks of virtual machines and of their hosts differ by this at most.
const SKEW: Duration = Duration::from_secs(3600);

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime {
    not_before: OffsetDateTime,
    not_after: OffsetDateTime,
}

impl Lifetime {
    /// From now, as a time since 1970, for some time.
    pub fn from(now: Duration, lifetime: Duration) -> Lifetime {
        let at = |since: Duration| {
            let seconds = i64::try_from(since.as_secs()).ok();
            let at = seconds.and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
            at.unwrap_or(OffsetDateTime::UNIX_EPOCH)
        };
        Lifetime { not_before: at(now.saturating_sub(SKEW)), not_after: at(now + lifetime) }
    }
}

/// The key of the authority, and its certificate.
pub struct Root {
    key: KeyPair,
    pem: String,
    /// What the certificate says.
    pub certificate: Certificate,
}

impl Root {
    /// Makes another authority.
    pub fn new(lifetime: Lifetime) -> Result<Root, String> {
        let key = KeyPair::generate().map_err(problem)?;
        let mut said = params(&key).map_err(problem)?;
        (said.not_before, said.not_after) = (lifetime.not_before, lifetime.not_after);
        let pem = said.self_signed(&key).map_err(problem)?.pem();
        let certificate = tokamak_tls::certificate(pem.as_bytes())?;
        Ok(Root { key, pem, certificate })
    }

    /// Reads what [`Root::pair`] wrote.
    ///
    /// # Errors
    /// Fails if it is anything else.
    pub fn read(file: &[u8]) -> Result<Root, String> {
        let text = str::from_utf8(file).map_err(|_| "it is no text")?;
        let Pair { certificate, .. } =
            Pair::read(file, file).map_err(|problem| problem.to_string())?;
        let key = KeyPair::from_pem(text).map_err(problem)?;
        let at = text.find(CERTIFICATE).ok_or("no certificate is in it")?;
        Ok(Root { key, pem: text[at..].to_owned(), certificate })
    }

    /// The certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The key, and the certificate after it.
    pub fn pair(&self) -> String {
        format!("{}{}", self.key.serialize_pem(), self.pem)
    }

    /// Makes a certificate for these names: the certificate, and its key after it.
    pub fn sign(&self, names: &[&str], lifetime: Lifetime) -> Result<String, String> {
        let signed = || {
            let key = KeyPair::generate()?;
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut said = CertificateParams::new(names)?;
            // No host name: a client without the alternative names would take it for one.
            said.distinguished_name.push(DnType::CommonName, "Tokamak local certificate");
            said.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            said.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            said.use_authority_key_identifier_extension = true;
            (said.not_before, said.not_after) = (lifetime.not_before, lifetime.not_after);
            let issuer = params(&self.key)?;
            let certificate = said.signed_by(&key, &Issuer::from_params(&issuer, &self.key))?;
            Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
        };
        signed().map_err(problem)
    }
}

/// How the text of a certificate begins.
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

/// How the name of an authority begins.
const NAME: &str = "Tokamak local authority ";

/// Whether an authority can have this name.
pub fn is_name(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let identifier = name.strip_prefix(NAME);
    identifier.is_some_and(|digits| digits.len() == 8 && digits.bytes().all(is_digit))
}

/// What the certificate of an authority with this key says, but for its lifetime.
fn params(key: &KeyPair) -> Result<CertificateParams, Error> {
    let mut said = CertificateParams::new(Vec::new())?;
    // Part of the name, so that the authorities of two machines can be told apart in a list, and
    // so that a client that trusts an older one says that the newer one is unknown.
    let identifier = said.key_identifier(key);
    let identifier: String = identifier.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{NAME}{identifier}");
    said.distinguished_name.push(DnType::CommonName, name);
    said.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    said.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // Names of persons and programs are not constrained below: nobody can sign mail or code.
    said.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let loopback = [
        CidrSubnet::from_v4_prefix([127, 0, 0, 0], 8),
        CidrSubnet::V6([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0xff; 16]),
    ];
    let mut permitted = vec![GeneralSubtree::DnsName("localhost".into())];
    permitted.extend(loopback.map(GeneralSubtree::IpAddress));
    said.name_constraints =
        Some(NameConstraints { permitted_subtrees: permitted, excluded_subtrees: Vec::new() });
    Ok(said)
}

fn problem(error: Error) -> String {
    format!("a certificate cannot be made: {error}")
}
