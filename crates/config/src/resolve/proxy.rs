//! Proxies in front of the server.

use super::Reader;
use crate::model::{Proxies, TrustedHeader};
use crate::option;
use crate::origin::Origin;

fn proxies(top: &option::Top) -> Proxies {
    Proxies {
        trusted: top.trusted_proxies.value.clone(),
        headers: top.trusted_headers.value.clone(),
        has_named_headers: top.trusted_headers.origin != Origin::Default,
        protocol: top.proxy_protocol.value.clone(),
    }
}

impl Default for Proxies {
    fn default() -> Proxies {
        proxies(&option::Section::defaults())
    }
}

impl Reader<'_> {
    /// The proxies in front of the server.
    pub(super) fn proxies(&mut self, top: &option::Top) -> Proxies {
        let proxies = proxies(top);
        let others =
            [TrustedHeader::For, TrustedHeader::Proto, TrustedHeader::Host, TrustedHeader::Port];
        if proxies.believes(TrustedHeader::Forwarded)
            && others.into_iter().any(|header| proxies.believes(header))
        {
            let problem = "has `forwarded` beside `x-forwarded-…`; a proxy sets one of the two and \
                           passes on what clients write into the other, so keep the one that yours \
                           sets";
            self.report("", "trusted_headers", top.trusted_headers.origin, problem.into());
        }
        if !proxies.protocol.is_empty() && proxies.trusted.is_empty() {
            let problem = "needs `trusted_proxies`, the addresses that PROXY headers are accepted \
                           from; all other connections are closed";
            self.report("", "proxy_protocol", top.proxy_protocol.origin, problem.into());
        }
        for address in &proxies.protocol {
            let [plain, tls] = [&top.listen, &top.listen_tls].map(|given| &given.value);
            if !plain.contains(address) && !tls.contains(address) {
                let problem = format!(
                    "{address} is not among the addresses of `listen` and `listen_tls`; add it"
                );
                self.report("", "proxy_protocol", top.proxy_protocol.origin, problem);
            }
        }
        proxies
    }
}
