//! The requests of the scoreboard, as scripts see them.

use std::sync::atomic::Ordering;

use tokamak_lua::{Attribute, Item, Other};

use super::attributes::Origin;
use crate::client::Addresses;
use crate::context::Context;
use crate::scoreboard::Served;
use crate::site::Site;

/// The requests that are being served, except that of the client `own`.
pub fn others(context: &Context, own: &Addresses) -> Vec<Other> {
    let all = context.scoreboard.ask();
    let others = all.iter().filter(|served| !std::ptr::eq(&*served.addresses, own));
    others.map(|served| other(served, &context.sites[served.site_index])).collect()
}

fn other(served: &Served, site: &Site) -> Other {
    let origin = Origin {
        site,
        scheme: served.scheme,
        addresses: &served.addresses,
        parts: &served.parts,
        original: &served.parts.uri,
    };
    let value = |attribute: Attribute| match attribute {
        // In lighttpd's words.
        Attribute::Stage if served.status.load(Ordering::Relaxed) > 0 => Some(b"write".to_vec()),
        attribute => origin.attribute(attribute),
    };
    let attribute = |attribute: &Attribute| Some((*attribute, value(*attribute)?));
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().as_bytes().to_vec(), value.as_bytes().to_vec())
    };
    Other {
        attributes: Attribute::ALL.iter().filter_map(attribute).collect(),
        items: Item::ALL.iter().map(|each| (*each, item(served, *each))).collect(),
        fields: served.parts.headers.iter().map(field).collect(),
    }
}

fn item(served: &Served, item: Item) -> (i64, i64) {
    let head = served.head.load(Ordering::Relaxed);
    let number = match item {
        Item::StartTime => return super::time_of_day(served.began),
        Item::BytesIn | Item::RequestHeaderLen => {
            super::head_length(&served.parts, &served.parts.uri)
        }
        Item::BytesOut => head + served.sent.load(Ordering::Relaxed),
        Item::ResponseHeaderLen => head,
        Item::RequestCount => served.count.into(),
        Item::HttpStatus => served.status.load(Ordering::Relaxed).into(),
        Item::KeepAlive => 1,
        Item::StreamId => 0,
    };
    (number as i64, 0)
}
