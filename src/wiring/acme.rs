//! The process that gets certificates.

use tokamak_supervisor::AcmeStart;

/// Runs in this process until the supervisor is gone.
pub fn main(start: AcmeStart) -> u8 {
    let AcmeStart { settings, names, on_demand, accounts, tries, shared, channel } = start;
    tokamak_acme::run(tokamak_acme::Start {
        settings,
        names,
        on_demand,
        accounts,
        tries,
        shared,
        channel,
    })
}
