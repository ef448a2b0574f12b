//! The cache settings of a site, by the path of a request.

use std::sync::Arc;

use tokamak_cache::Rules;
use tokamak_config::{self as config, Ignored};

use crate::route;

/// The cache settings of a site or of one of its routes.
#[derive(Debug)]
pub struct CachePolicy {
    /// Which responses are stored, and for how long.
    pub rules: Rules,
    /// Query parameters that do not change the response.
    pub ignored_query: Vec<String>,
}

impl CachePolicy {
    fn new(caching: &config::Caching) -> Option<Arc<CachePolicy>> {
        let ignores = |what| caching.ignore.contains(&what);
        let rules = Rules {
            lifetime: caching.lifetime,
            while_revalidate: caching.while_revalidate,
            if_error: caching.if_error,
            ignores_cookies: ignores(Ignored::Cookie),
            ignores_set_cookie: ignores(Ignored::SetCookie),
            ignores_request: ignores(Ignored::Request),
            ignores_response: ignores(Ignored::Response),
        };
        let ignored_query = caching.ignore_query.clone();
        caching.is_on.then(|| Arc::new(CachePolicy { rules, ignored_query }))
    }
}

/// The policies of a site and of its routes.
pub struct SiteCachePolicies {
    own: Option<Arc<CachePolicy>>,
    /// By the routes' paths, the longest first.
    routes: Vec<(String, Option<Arc<CachePolicy>>)>,
}

impl SiteCachePolicies {
    /// Takes the settings from the configuration.
    pub fn new(site: &config::Site) -> SiteCachePolicies {
        let of_route = |route: &config::Route| (route.path.clone(), CachePolicy::new(&route.cache));
        SiteCachePolicies {
            own: CachePolicy::new(&site.cache),
            routes: site.routes.iter().map(of_route).collect(),
        }
    }

    /// The policy for a clean path; `None` where nothing is cached.
    pub fn of(&self, path: &[u8]) -> Option<&Arc<CachePolicy>> {
        let route = self.routes.iter().find(|(route, _)| route::is_below(path, route));
        route.map_or(&self.own, |(_, policy)| policy).as_ref()
    }
}
