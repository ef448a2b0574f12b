//! Certificates on their way to the fronts, and the process that gets them.

use tokamak_sys::control::ToFront;

use super::Supervisor;
use crate::generation::Generation;
use crate::log::{self, Level};

impl Supervisor {
    /// Sees that a process gets certificates while the server serves and wants any.
    pub(super) fn mind_acme(&mut self, now: u64) {
        if self.fleet.stopping {
            return self.acme.kill();
        }
        // Before that, no front could answer an authority, or another version gets the
        // certificates.
        if !self.announced || self.predecessor.is_some() {
            return;
        }
        let (server, host) = (&self.fleet.configured, &self.host);
        self.acme.tick(server, &host.certificates, &*host.setup.acme, now);
    }

    /// A client's handshake waits for a certificate.
    pub(super) fn want_certificate(&mut self, name: &str, now: u64) {
        let (server, certificates) = (&self.fleet.configured, &mut self.host.certificates);
        self.acme.want(name, server, certificates, now);
    }

    /// Tells the fronts for which names none is got.
    fn send_declined(&mut self) {
        for name in self.acme.take_declined() {
            let message = ToFront::Declined { name };
            for generation in &mut self.fleet.generations {
                if generation.front().is_some() {
                    generation.send_to_front(&message, Vec::new());
                }
            }
        }
    }

    /// Gives new certificates to the fronts.
    pub(super) fn mind_certificates(&mut self, now: u64) {
        let is_new = self.host.certificates.tick(now);
        if is_new {
            self.certificate_messages += 1;
            let generations = self.send_certificates();
            self.acme.credentials_sent(self.certificate_messages, generations.into_iter());
        }
        let generations = &self.fleet.generations;
        let has_front = |number: u32| {
            let is = |other: &&Generation| other.number == number && other.front().is_some();
            generations.iter().find(is).is_some()
        };
        self.acme.advance(has_front, !is_new);
        self.send_declined();
    }

    /// Returns the generations whose fronts are to answer: one that serves no TLS gets nothing.
    fn send_certificates(&mut self) -> Vec<u32> {
        let mut generations = Vec::new();
        for generation in &mut self.fleet.generations {
            match self.host.certificates.memory_file(generation.server()) {
                Ok(Some(memory)) if generation.front().is_some() => {
                    let message = ToFront::Certificates { number: self.certificate_messages };
                    generation.send_to_front(&message, vec![memory]);
                    generations.push(generation.number);
                }
                Ok(_) => {}
                Err(error) => {
                    let problem = "cannot give new certificates to the front";
                    log::line(Level::Error, format_args!("{problem}: {error}"));
                }
            }
        }
        generations
    }
}
