//! A name, and how it stands.

use instant_acme::CertificateIdentifier;
use tokamak_tls::{Certificate, Pair};

use std::time::Duration;

use crate::now;
use crate::order;
use crate::plan::{self, Validity, Window};
use crate::tries::Tries;

/// A name, and how it stands.
pub struct Name {
    /// The name itself.
    pub name: String,
    /// Whether it was first seen in a handshake.
    pub is_on_demand: bool,
    /// Its certificate.
    pub held: Option<NameCertificate>,
    /// A certificate that could not be stored yet, and how often that was tried.
    pub unsaved: Option<(Vec<u8>, u32)>,
    /// How the tries to get one have gone.
    pub tries: Tries,
    /// When something is to be done.
    pub next: u64,
    /// Before when nothing is ordered, because the last order has succeeded.
    pub floor: u64,
    /// Since when another node has its turn.
    pub elsewhere: Option<u64>,
}

/// What [`Name::next`] is if a handshake waits.
pub const AWAITED: u64 = 0;

/// A certificate that a name has.
pub struct NameCertificate {
    /// The certificate with its chain and its key.
    pub file: Vec<u8>,
    /// When it is valid.
    pub validity: Validity,
    /// By which the authority knows it.
    pub id: Option<CertificateIdentifier<'static>>,
    /// When it is renewed.
    pub renew: u64,
    /// When the authority is asked for its window again.
    pub ask: u64,
    /// Which point of the window is this server's.
    share: f64,
}

impl Name {
    /// A name with this certificate, if it has one.
    pub fn new(name: String, file: Option<Vec<u8>>, tries: Tries) -> Name {
        let held = file.and_then(NameCertificate::of);
        let (unsaved, next, floor, elsewhere) = (None, AWAITED + 1, 0, None);
        Name { name, is_on_demand: false, held, unsaved, tries, next, floor, elsewhere }
    }

    /// Whether a handshake waits for its certificate.
    pub fn is_awaited(&self) -> bool {
        self.next == AWAITED
    }

    /// Whether it has a certificate that has not ended.
    pub fn is_served(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.validity.ends > now())
    }

    /// The certificate that could not be stored yet. One that could not be stored until its end is
    /// of no use any more.
    pub fn take_unsaved(&mut self) -> Option<(Vec<u8>, u32)> {
        let is_good = |(file, _): &(Vec<u8>, u32)| order::check(&self.name, file).is_ok();
        self.unsaved.take().filter(is_good)
    }

    /// It has this certificate now. The authority may want to say when to renew it, so it is asked
    /// at once.
    pub fn has(&mut self, file: Vec<u8>) {
        self.tries.succeeded();
        self.held = NameCertificate::of(file);
        self.floor = self.held.as_ref().map_or(0, |held| plan::floor(held.validity, now()));
        self.next = now();
    }
}

impl NameCertificate {
    /// The certificate in this file, if it is one.
    pub fn of(file: Vec<u8>) -> Option<NameCertificate> {
        let certificate = Pair::read(&file, &file).ok()?.certificate;
        let validity = Validity { begins: certificate.not_before, ends: certificate.not_after };
        let share = fastrand::f64();
        let renew = plan::renewal(validity, None, share, now());
        Some(NameCertificate { file, validity, id: identifier(&certificate), renew, ask: 0, share })
    }

    /// The authority wants it to be renewed then, and to be asked again after so long.
    pub fn set_window(&mut self, window: Option<Window>, again: Option<Duration>) {
        let now = now();
        self.renew = plan::renewal(self.validity, window, self.share, now);
        self.ask = now + plan::ask_again(again).as_secs();
    }
}

fn identifier(certificate: &Certificate) -> Option<CertificateIdentifier<'static>> {
    let (authority_key_identifier, serial) = certificate.renewal_id()?;
    Some(CertificateIdentifier {
        authority_key_identifier: authority_key_identifier.into(),
        serial: serial.into(),
    })
}
