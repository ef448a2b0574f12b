//! What is configured for a site and its routes.

use std::sync::Arc;

use tokamak_config::{self as config, Coding, Compression};

use super::types::Types;

/// Which responses are compressed, and how.
#[derive(Debug)]
pub struct Policy {
    /// The codings, the preferred one first; there is at least one.
    pub codings: Vec<Coding>,
    /// Which media types are compressed.
    pub types: Types,
    /// Bytes of the smallest body that is compressed.
    pub smallest: u64,
    /// Whether requests count that pages of other sites make with the user's credentials.
    pub cross_site: bool,
}

impl Policy {
    /// The policy of these settings; `None`: nothing is compressed.
    pub fn new(settings: &Compression) -> Option<Arc<Policy>> {
        let Compression { codings, types, smallest, cross_site } = settings;
        (!codings.is_empty()).then(|| {
            Arc::new(Policy {
                codings: codings.clone(),
                types: Types::new(types),
                smallest: *smallest as u64,
                cross_site: *cross_site,
            })
        })
    }
}

/// The policies of a site and of its routes.
pub struct SiteCompression {
    own: Option<Arc<Policy>>,
    /// In the order of the routes; empty if the site's own policy holds for all of them.
    routes: Vec<Option<Arc<Policy>>>,
}

impl SiteCompression {
    /// Takes the settings from the configuration.
    pub fn new(site: &config::Site) -> SiteCompression {
        let differs = site.routes.iter().any(|route| route.compression != site.compression);
        let routes = site.routes.iter().filter(|_| differs);
        SiteCompression {
            own: Policy::new(&site.compression),
            routes: routes.map(|route| Policy::new(&route.compression)).collect(),
        }
    }

    /// The policy for a request; `None`: its response is not compressed. `route` finds the route of
    /// the request, and is called only if that makes a difference.
    pub fn of(&self, route: impl FnOnce() -> Option<usize>) -> Option<&Arc<Policy>> {
        let route = if self.routes.is_empty() { None } else { route() };
        route.map_or(&self.own, |route| &self.routes[route]).as_ref()
    }
}
