//! Which responses are compressed.

use super::{Reader, number};
use crate::model::Compression;
use crate::option;
use crate::origin::{Given, Origin};
use crate::value::{Auto, Text};

impl Default for Compression {
    fn default() -> Compression {
        let site: option::Site = option::Section::defaults();
        Compression {
            codings: site.compression.value.0,
            types: lower(&site.compression_types.value),
            smallest: number(site.compression_smallest.value.0),
            cross_site: site.compression_cross_site.value,
        }
    }
}

fn lower(types: &[Text]) -> Vec<String> {
    types.iter().map(|text| text.0.to_ascii_lowercase()).collect()
}

/// Whether a media type has this form: `a/b`, `a/*`, `*+b` or `*/*`.
fn is_pattern(text: &str) -> bool {
    let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'*');
    match (text.strip_prefix('*'), text.strip_suffix('*')) {
        _ if text == "*/*" => true,
        (Some(end), _) => end.starts_with('+') && is_text(end),
        (None, Some(start)) => start.contains('/') && is_text(start),
        (None, None) => text.contains('/') && !text.contains(';') && is_text(text),
    }
}

impl Reader<'_> {
    /// What a site says of it.
    pub(super) fn compression(&mut self, site: &option::Site) -> Compression {
        let types = &site.compression_types;
        Compression {
            codings: site.compression.value.0.clone(),
            types: self.types("site", &types.value, types.origin),
            smallest: number(site.compression_smallest.value.0),
            cross_site: site.compression_cross_site.value,
        }
    }

    /// What holds for a route of a site that says this.
    pub(super) fn route_compression(
        &mut self,
        route: &option::Route,
        site: &Compression,
    ) -> Compression {
        let option::Route { compression, compression_types, compression_smallest, .. } = route;
        let Given { value: types, origin } = compression_types;
        Compression {
            codings: match &compression.value {
                Auto::Is(codings) => codings.0.clone(),
                Auto::Word => site.codings.clone(),
            },
            types: match types {
                Auto::Is(types) => self.types("site.route", types, *origin),
                Auto::Word => site.types.clone(),
            },
            smallest: match &compression_smallest.value {
                Auto::Is(smallest) => number(smallest.0),
                Auto::Word => site.smallest,
            },
            cross_site: site.cross_site,
        }
    }

    fn types(&mut self, section: &str, types: &[Text], origin: Origin) -> Vec<String> {
        for Text(text) in types.iter().filter(|text| !is_pattern(&text.0)) {
            let problem = format!(
                "`{text}` is not a media type; write it without parameters, as in \"text/html\", \
                    \"text/*\" or \"*+json\""
            );
            self.report(section, "compression_types", origin, problem);
        }
        lower(types)
    }
}
