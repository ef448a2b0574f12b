//! The conditions of rules on everything of a request but its path.

use std::net::IpAddr;

use tokamak_config::{Condition, Rule};

use super::RuleRequest;
use crate::route::hosts::host_of;

/// A request with its client, as conditions see it.
#[derive(Clone, Copy)]
pub(super) struct RuleInput<'a> {
    /// The client.
    pub client: IpAddr,
    request: &'a RuleRequest<'a>,
}

impl<'a> RuleInput<'a> {
    /// The input of this request.
    pub fn by(request: &'a RuleRequest<'a>) -> RuleInput<'a> {
        RuleInput { client: request.caller.addresses().peer.ip(), request }
    }

    /// Whether the conditions of a rule hold.
    pub fn fits(self, rule: &Rule) -> bool {
        let (Some(conditions), request) = (&rule.conditions, self.request) else { return true };
        let holds = |condition: &Option<Condition>, text: &str| {
            condition.as_ref().is_none_or(|condition| condition.holds(text))
        };
        holds(&conditions.method, request.method.as_str())
            && holds(&conditions.query, request.uri.query().unwrap_or_default())
            && conditions.headers.iter().all(|(name, own)| own.holds(&field(request, name)))
    }
}

/// The values of a header field, joined by commas; empty without the field.
fn field(request: &RuleRequest<'_>, name: &str) -> String {
    if name == "host" {
        return host_of(request.uri, request.headers).unwrap_or_default().to_owned();
    }
    let values = request.headers.get_all(name).iter();
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    values.join(", ")
}
