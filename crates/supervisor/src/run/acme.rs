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
        // Before, nobody could answer an authority.
        if !self.announced {
            return;
        }
        let (server, host) = (&self.fleet.configured, &self.host);
        self.acme.tick(server, &host.certificates, &*host.setup.acme, now);
    }

    /// Gives new certificates to the fronts.
    pub(super) fn mind_certificates(&mut self, now: u64) {
        let is_new = self.host.certificates.tick(now);
        if is_new {
            self.parcels += 1;
            self.send_certificates();
            let fronts = self.fleet.generations.iter().filter(|other| other.front().is_some());
            self.acme.parcel_sent(self.parcels, fronts.map(|generation| generation.number));
        }
        let generations = &self.fleet.generations;
        let has_front = |number: u32| {
            let is = |other: &&Generation| other.number == number && other.front().is_some();
            generations.iter().find(is).is_some()
        };
        self.acme.advance(has_front, !is_new);
    }

    fn send_certificates(&mut self) {
        for generation in &mut self.fleet.generations {
            match self.host.certificates.parcel(generation.server()) {
                Ok(parcel) => parcel.into_iter().for_each(|memory| {
                    let message = ToFront::Certificates { number: self.parcels };
                    generation.tell_front(&message, vec![memory]);
                }),
                Err(error) => {
                    let problem = "cannot give new certificates to the front";
                    log::line(Level::Error, format_args!("{problem}: {error}"));
                }
            }
        }
    }
}
