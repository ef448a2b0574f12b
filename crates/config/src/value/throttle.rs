//! Rates of requests, and what a client is.

use super::{Bounds, Kind, Value, ValueError, quote, text_of, wrong};
use crate::literal::Literal;
use crate::model::{ClientId, Rate, TimeUnit};

/// Greatest number of a rate. An event loop serves fewer requests in a second; a higher rate would
/// have an interval of less than a microsecond, which clocks hardly tell from none.
const MOST: u32 = 1_000_000;

impl Value for Rate {
    const KIND: Kind = Kind::Rate;

    fn read(literal: &Literal, _: &Bounds) -> Result<Rate, Vec<ValueError>> {
        let text = text_of(literal, "a rate such as \"10/s\"")?;
        let rate = text.trim().split_once('/').and_then(|(requests, unit)| {
            let (per, _) = TimeUnit::ALL.into_iter().find(|(_, letter)| *letter == unit.trim())?;
            Some(Rate { requests: requests.trim().parse().ok()?, per })
        });
        match rate {
            Some(Rate { requests: 0, .. }) => {
                wrong("a rate of 0 would refuse every request; use `deny` for that")
            }
            Some(Rate { requests, .. }) if requests > MOST => {
                wrong(format!("{requests} is out of bounds; use 1 to {MOST}"))
            }
            Some(rate) => Ok(rate),
            None => wrong(format!(
                "`{text}` is no rate; write a number, `/` and s, m or h, as in \"10/s\" or \"90/m\""
            )),
        }
    }

    fn toml(&self) -> Option<String> {
        quote(&self.to_string())
    }
}

impl Value for ClientId {
    const KIND: Kind = Kind::ClientId;

    fn read(literal: &Literal, _: &Bounds) -> Result<ClientId, Vec<ValueError>> {
        let text = text_of(literal, "\"address\" or \"header:NAME\"")?;
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        match text.strip_prefix("header:") {
            Some(name) if !name.is_empty() && name.bytes().all(is_token) => {
                Ok(ClientId::Header(name.to_ascii_lowercase()))
            }
            None if text == "address" => Ok(ClientId::Address),
            _ => wrong(format!(
                "`{text}` is nothing of a client; write \"address\", or \"header:NAME\" with the \
                    name of a header field"
            )),
        }
    }

    fn toml(&self) -> Option<String> {
        quote(&self.to_string())
    }
}
