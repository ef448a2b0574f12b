//! What an application says of itself (§4.1): how many connections and requests it takes, and
//! whether it takes several requests on one connection.

use crate::Error;
use crate::params::{self, Limits, Pairs};

const MAX_CONNS: &[u8] = b"FCGI_MAX_CONNS";
const MAX_REQS: &[u8] = b"FCGI_MAX_REQS";
const MPXS_CONNS: &[u8] = b"FCGI_MPXS_CONNS";

/// What a query or its answer may hold. The three variables of the specification take less than 100
/// bytes, so there is room for those of others; the bound only limits what a hostile peer makes us
/// hold.
const LIMITS: Limits = Limits { bytes: 4096, pairs: 64 };

/// The variables that a query names. Unknown names are ignored, as §4.1 demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValuesQuery {
    /// FCGI_MAX_CONNS.
    pub max_conns: bool,
    /// FCGI_MAX_REQS.
    pub max_reqs: bool,
    /// FCGI_MPXS_CONNS.
    pub mpxs_conns: bool,
}

/// The values in an application's answer; absent: it does not give this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// Connections that it takes at once.
    pub max_conns: Option<u32>,
    /// Requests that it takes at once.
    pub max_reqs: Option<u32>,
    /// Whether it takes several requests on one connection.
    pub mpxs_conns: Option<bool>,
}

impl ValuesQuery {
    /// All of them.
    pub const ALL: ValuesQuery = ValuesQuery { max_conns: true, max_reqs: true, mpxs_conns: true };

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        for (wanted, name) in
            [(self.max_conns, MAX_CONNS), (self.max_reqs, MAX_REQS), (self.mpxs_conns, MPXS_CONNS)]
        {
            if wanted {
                params::put(out, name, b"");
            }
        }
    }

    pub(crate) fn read(content: &[u8]) -> Result<ValuesQuery, Error> {
        let mut query = ValuesQuery::default();
        read(content, |name, _| match name {
            MAX_CONNS => query.max_conns = true,
            MAX_REQS => query.max_reqs = true,
            MPXS_CONNS => query.mpxs_conns = true,
            _ => {}
        })?;
        Ok(query)
    }
}

impl Values {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        let number = |value: u32| value.to_string().into_bytes();
        for (name, value) in [
            (MAX_CONNS, self.max_conns.map(number)),
            (MAX_REQS, self.max_reqs.map(number)),
            (MPXS_CONNS, self.mpxs_conns.map(|can| number(can.into()))),
        ] {
            if let Some(value) = value {
                params::put(out, name, &value);
            }
        }
    }

    /// A value that is no number counts as not said.
    pub(crate) fn read(content: &[u8]) -> Result<Values, Error> {
        let mut values = Values::default();
        let number = |value: &[u8]| std::str::from_utf8(value).ok()?.parse().ok();
        read(content, |name, value| match name {
            MAX_CONNS => values.max_conns = number(value),
            MAX_REQS => values.max_reqs = number(value),
            MPXS_CONNS => values.mpxs_conns = number(value).map(|can| can != 0),
            _ => {}
        })?;
        Ok(values)
    }
}

fn read(content: &[u8], each: impl FnMut(&[u8], &[u8])) -> Result<(), Error> {
    let mut pairs = Pairs::new(LIMITS);
    pairs.feed(content, each)?;
    pairs.finish()
}
