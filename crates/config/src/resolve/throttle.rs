//! What one client may do, for the server and for rules.

use super::Reader;
use crate::model::{ClientId, ClientLimits};
use crate::option;
use crate::origin::{Given, Origin};
use crate::value::Count;

impl Reader<'_> {
    pub(super) fn client_limits(&mut self, raw: &option::Limits) -> ClientLimits {
        let limits = ClientLimits {
            rate: raw.client_rate.value,
            burst: small(&raw.client_burst),
            connections: small(&raw.client_connections),
            by: ClientId::Address,
            dry_run: raw.client_dry_run.value,
        };
        let dry_run = ("client_dry_run", raw.client_dry_run.origin);
        let names = ("client_rate", "client_connections");
        self.fit_limits("limits", &limits, names, ("client_burst", &raw.client_burst), dry_run);
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
        let dry_run = ("limit_dry_run", raw.limit_dry_run.origin);
        let (section, names) = ("site.rule", ("rate", "connections"));
        self.fit_limits(section, &limits, names, ("burst", &raw.burst), dry_run);
        if limits.by != ClientId::Address && limits.is_empty() {
            let problem = "is only for `rate` and `connections`; set one of them, or remove it";
            self.report(section, "limit_by", raw.limit_by.origin, problem.into());
        }
        limits
    }

    /// Checks what only makes sense together.
    fn fit_limits(
        &mut self,
        section: &str,
        limits: &ClientLimits,
        (rate, connections): (&str, &str),
        (burst, given): (&str, &Given<Count>),
        (dry_run, origin): (&str, Origin),
    ) {
        if limits.burst > 0 && limits.rate.is_none() {
            let problem = format!("is only for `{rate}`; set that, or remove it");
            self.report(section, burst, given.origin, problem);
        }
        if limits.dry_run && limits.is_empty() {
            let problem =
                format!("is only for `{rate}` and `{connections}`; set one of them, or remove it");
            self.report(section, dry_run, origin, problem);
        }
    }
}

/// The bounds of the options are within this type.
fn small(given: &Given<Count>) -> u32 {
    u32::try_from(given.value.0).unwrap_or(u32::MAX)
}
