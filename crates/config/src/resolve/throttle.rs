//! What one client may do, for the server and for rules.

use super::Reader;
use crate::model::{ClientId, ClientLimits};
use crate::option;
use crate::origin::{Given, Origin};
use crate::value::Count;

/// The names of the keys that limit clients, for errors.
struct LimitKeys {
    section: &'static str,
    rate: &'static str,
    connections: &'static str,
    burst: &'static str,
    dry_run: &'static str,
}

impl Reader<'_> {
    pub(super) fn client_limits(&mut self, raw: &option::Limits) -> ClientLimits {
        let limits = ClientLimits {
            rate: raw.client_rate.value,
            burst: small(&raw.client_burst),
            connections: small(&raw.client_connections),
            by: ClientId::Address,
            dry_run: raw.client_dry_run.value,
        };
        let keys = LimitKeys {
            section: "limits",
            rate: "client_rate",
            connections: "client_connections",
            burst: "client_burst",
            dry_run: "client_dry_run",
        };
        self.fit_limits(&keys, &limits, raw.client_burst.origin, raw.client_dry_run.origin);
        limits
    }

    pub(super) fn rule_limits(&mut self, raw: &option::Rule) -> ClientLimits {
        let limits = ClientLimits {
            rate: raw.rate.value,
            burst: small(&raw.burst),
            connections: small(&raw.connections),
            by: raw.limit_by.value.clone(),
            dry_run: raw.limit_dry_run.value,
        };
        let keys = LimitKeys {
            section: "site.rule",
            rate: "rate",
            connections: "connections",
            burst: "burst",
            dry_run: "limit_dry_run",
        };
        self.fit_limits(&keys, &limits, raw.burst.origin, raw.limit_dry_run.origin);
        if limits.by != ClientId::Address && limits.is_empty() {
            let problem = "is only for `rate` and `connections`; set one of them, or remove it";
            self.report(keys.section, "limit_by", raw.limit_by.origin, problem.into());
        }
        limits
    }

    /// Checks what only makes sense together.
    fn fit_limits(
        &mut self,
        keys: &LimitKeys,
        limits: &ClientLimits,
        burst_origin: Origin,
        dry_run_origin: Origin,
    ) {
        let LimitKeys { section, rate, connections, burst, dry_run } = *keys;
        if limits.burst > 0 && limits.rate.is_none() {
            let problem = format!("is only for `{rate}`; set that, or remove it");
            self.report(section, burst, burst_origin, problem);
        }
        if limits.dry_run && limits.is_empty() {
            let problem =
                format!("is only for `{rate}` and `{connections}`; set one of them, or remove it");
            self.report(section, dry_run, dry_run_origin, problem);
        }
    }
}

/// The bounds of the options are within this type.
fn small(given: &Given<Count>) -> u32 {
    u32::try_from(given.value.0).unwrap_or(u32::MAX)
}
