//! Networks of clients and of proxies.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Bounds, Kind, Value, ValueError, quote, text_of, wrong};
use crate::literal::Literal;
use crate::model::Network;

impl Value for Network {
    const KIND: Kind = Kind::Network;

    fn read(literal: &Literal, _: &Bounds) -> Result<Network, Vec<ValueError>> {
        let text = text_of(literal, "an address or a network such as \"10.0.0.0/8\"")?;
        match text {
            "all" => return Ok(Network::All),
            "private" => return Ok(Network::Private),
            _ => {}
        }
        let network = text.parse::<IpNet>().ok();
        match network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)) {
            // Bits that do not count are probably a mistake in the others.
            Some(network) if network.trunc() != network => {
                let (ip, bits) = (network.trunc(), network.prefix_len());
                wrong(format!("`{text}` has bits behind the first {bits}; write \"{ip}\""))
            }
            Some(network) => Ok(Network::Of(network)),
            None => wrong(format!(
                "`{text}` is neither an address nor a network; write it as in \"192.0.2.1\", \
                    \"10.0.0.0/8\", \"2001:db8::/32\", \"private\" or \"all\""
            )),
        }
    }

    fn toml(&self) -> Option<String> {
        quote(&self.to_string())
    }
}
