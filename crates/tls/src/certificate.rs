//! What a certificate says: for whom it is, until when, by whom.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use x509_cert::TbsCertificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, NameConstraints, SubjectAltName};
use x509_cert::time::Time;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The names that it is for, in lower case: host names, perhaps with `*.` before them, and
    /// addresses. Those of an old certificate without alternative names are its common names.
    pub names: Vec<String>,
    /// Whether those are common names, which browsers do not accept.
    pub is_common: bool,
    /// The time from which it is valid, in seconds since 1970.
    pub not_before: u64,
    /// The time until which it is valid, in seconds since 1970.
    pub not_after: u64,
    /// For whom it is, as RFC 4514 writes it.
    pub subject: String,
    /// By whom it is, as RFC 4514 writes it.
    pub issuer: String,
    /// Its number, in capital hexadecimal digits.
    pub serial: String,
    /// The names for which an authority may give certificates (RFC 5280, 4.2.1.10), as they are
    /// encoded, if all programs have to heed them.
    pub name_constraints: Option<Vec<u8>>,
    /// By which an authority knows it for renewals (RFC 9773, 4.1): the identifier of its key, and
    /// the number, both in base64url.
    renewal_id: Option<(String, String)>,
    /// Both times as OpenSSL prints them.
    times: [String; 2],
}

/// Bytes that are no certificate (X.509).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCertificate(String);

impl fmt::Display for InvalidCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is no certificate: {}", self.0)
    }
}

impl std::error::Error for InvalidCertificate {}

impl Certificate {
    /// Reads a certificate from its DER encoding.
    ///
    /// # Errors
    /// Fails if the bytes are no certificate.
    pub fn read(der: &[u8]) -> Result<Certificate, InvalidCertificate> {
        let invalid = |error: x509_cert::der::Error| InvalidCertificate(error.to_string());
        let certificate = x509_cert::Certificate::from_der(der).map_err(invalid)?;
        let said = certificate.tbs_certificate;
        let names = said.get::<SubjectAltName>().map_err(invalid)?;
        let is_common = names.is_none();
        let names = match names {
            Some((_, names)) => names.0.iter().filter_map(name).collect(),
            None => common_names(&said),
        };
        let seconds = |time: &Time| time.to_unix_duration().as_secs();
        let validity = &said.validity;
        Ok(Certificate {
            names,
            is_common,
            not_before: seconds(&validity.not_before),
            not_after: seconds(&validity.not_after),
            subject: said.subject.to_string(),
            issuer: said.issuer.to_string(),
            name_constraints: name_constraints(&said),
            renewal_id: authority_key(&said).map_err(invalid)?.map(|key| {
                (URL_SAFE_NO_PAD.encode(key), URL_SAFE_NO_PAD.encode(said.serial_number.as_bytes()))
            }),
            serial: said.serial_number.as_bytes().iter().map(|b| format!("{b:02X}")).collect(),
            times: [openssl_time(&validity.not_before), openssl_time(&validity.not_after)],
        })
    }

    /// By which an authority knows it for renewals (RFC 9773, 4.1): the identifier of its key, and
    /// the number, both in base64url. Absent if the certificate does not name a key.
    pub fn renewal_id(&self) -> Option<(String, String)> {
        self.renewal_id.clone()
    }

    /// The time from which it is valid, as OpenSSL prints it.
    pub fn valid_from(&self) -> &str {
        &self.times[0]
    }

    /// The time until which it is valid, as OpenSSL prints it.
    pub fn valid_until(&self) -> &str {
        &self.times[1]
    }

    /// Whether it is no longer valid at this time since 1970.
    pub fn has_expired(&self, now: Duration) -> bool {
        now.as_secs() > self.not_after
    }

    /// Whether it is for this host name, which is in lower case. A `*` stands for one label.
    pub fn is_for(&self, host: &str) -> bool {
        let above = host.split_once('.').map(|(_, above)| above);
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            Some(below) => above == Some(below),
            None => name == host,
        })
    }
}

fn name_constraints(said: &TbsCertificate) -> Option<Vec<u8>> {
    let mut found = said.extensions.iter().flatten();
    let found = found.find(|extension| extension.extn_id == NameConstraints::OID)?;
    found.critical.then(|| found.extn_value.as_bytes().to_vec())
}

fn authority_key(said: &TbsCertificate) -> x509_cert::der::Result<Option<Vec<u8>>> {
    let found = said.get::<AuthorityKeyIdentifier>()?;
    Ok(found.and_then(|(_, found)| Some(found.key_identifier?.as_bytes().to_vec())))
}

/// The common names that can be host names. Others are titles of authorities and people.
fn common_names(said: &TbsCertificate) -> Vec<String> {
    const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
    let attributes = said.subject.0.iter().flat_map(|name| name.0.iter());
    let common = attributes.filter(|attribute| attribute.oid == COMMON_NAME);
    let texts = common.filter_map(|name| std::str::from_utf8(name.value.value()).ok());
    let is_host = |text: &&str| {
        let host = text.strip_prefix("*.").unwrap_or(text);
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:".contains(&byte);
        !host.is_empty() && host.bytes().all(is_part)
    };
    texts.filter(is_host).map(str::to_ascii_lowercase).collect()
}

fn name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        GeneralName::IpAddress(octets) => {
            let octets = octets.as_bytes();
            let four = <[u8; 4]>::try_from(octets).map(IpAddr::from).ok();
            let address = four.or_else(|| <[u8; 16]>::try_from(octets).map(IpAddr::from).ok());
            address.map(|address| address.to_string())
        }
        _ => None,
    }
}

/// As OpenSSL prints times: `Nov  3 18:12:03 2026 GMT`.
fn openssl_time(time: &Time) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let at = time.to_date_time();
    let month = MONTHS.get(usize::from(at.month()).wrapping_sub(1)).unwrap_or(&"");
    let (day, year) = (at.day(), at.year());
    let clock = format_args!("{:02}:{:02}:{:02}", at.hour(), at.minutes(), at.seconds());
    format!("{month} {day:2} {clock} {year} GMT")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        rcgen::generate_simple_self_signed(names).unwrap().cert.der().to_vec()
    }

    #[test]
    fn a_certificate_says_for_whom_it_is() {
        let read = Certificate::read(&made(&["a.example", "*.b.example", "192.0.2.1"])).unwrap();
        assert_eq!(read.names, ["a.example", "*.b.example", "192.0.2.1"]);
        for (host, expected) in [
            ("a.example", true),
            ("x.a.example", false),
            ("x.b.example", true),
            ("x.y.b.example", false),
            ("b.example", false),
            ("192.0.2.1", true),
            ("", false),
        ] {
            assert_eq!(read.is_for(host), expected, "{host}");
        }
        assert!(read.not_before < read.not_after);
        assert!(read.has_expired(Duration::from_secs(read.not_after + 1)));
        assert!(!read.has_expired(Duration::from_secs(read.not_after)));
        assert!(read.valid_until().ends_with(" GMT"), "{}", read.valid_until());
    }

    /// As nginx serves them, and programs other than browsers accept them.
    #[test]
    fn an_old_certificate_is_for_its_common_name() {
        for (common, expected) in [
            ("Old.Example", &["old.example"][..]),
            ("*.old.example", &["*.old.example"]),
            ("My Company", &[]),
            ("", &[]),
        ] {
            let mut parameters = rcgen::CertificateParams::default();
            parameters.distinguished_name = rcgen::DistinguishedName::new();
            parameters.distinguished_name.push(rcgen::DnType::CommonName, common);
            let key = rcgen::KeyPair::generate().unwrap();
            let made = parameters.self_signed(&key).unwrap();
            let read = Certificate::read(made.der()).unwrap();
            assert_eq!(read.names, expected, "{common}");
            assert!(read.is_common);
        }
        assert!(!Certificate::read(&made(&["a.example"])).unwrap().is_common);
    }

    proptest! {
        #[test]
        fn invented_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Certificate::read(&bytes).is_err());
        }

        #[test]
        fn damaged_certificates_do_no_harm(at in any::<prop::sample::Index>(), value in any::<u8>()) {
            let mut der = made(&["a.example"]);
            let at = at.index(der.len());
            der[at] = value;
            let _ = Certificate::read(&der);
        }
    }
}
