//! The dashboard's page: one document, which asks for `/dashboard.json` itself. It needs nothing
//! from outside and has no figures in it, so everybody may have it.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, Response};
use http_body_util::Full;
use sha2::{Digest, Sha256};
use tokamak_profile::{SCRIPT_DIGEST, STYLE_DIGEST};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

static PAGE: LazyLock<Bytes> = LazyLock::new(|| {
    let page = include_str!("page.html").replace("@STYLE@", STYLE).replace("@SCRIPT@", SCRIPT);
    page.into()
});

/// The browser runs no other script, takes nothing from elsewhere, sends nothing to others, and
/// shows the page in no frame. A flame graph that the page opens has this policy beside its own
/// stricter one, so its script and its style stand here, too; its calls have attributes for their
/// depth. The dashboard itself makes no markup of texts, so there is none in it.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let policy = format!(
        "default-src 'none'; script-src {} 'sha256-{SCRIPT_DIGEST}'; \
            style-src {} 'sha256-{STYLE_DIGEST}'; style-src-attr 'unsafe-inline'; img-src data:; \
            connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    // Of hashes in Base64 and what stands above, all is allowed in a header.
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// The page.
pub fn page() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(PAGE.clone()));
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    let resource = HeaderName::from_static("cross-origin-resource-policy");
    response.headers_mut().extend([
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        // A newer server may have another page for the same address.
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (opener, HeaderValue::from_static("same-origin")),
        (resource, HeaderValue::from_static("same-origin")),
    ]);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_a_colour_in_both_schemes() {
        for nth in 0..tokamak_cost::Phase::ALL.len() {
            assert_eq!(STYLE.matches(&format!("--p{nth}: #")).count(), 2, "{nth}");
        }
    }

    #[test]
    fn the_page_is_whole_and_keeps_its_own_policy() {
        let page = std::str::from_utf8(&PAGE).unwrap();
        assert!(page.contains(SCRIPT) && page.contains(STYLE) && !page.contains("@STYLE@"));
        assert!(POLICY.to_str().unwrap().contains("script-src 'sha256-"));
        // A handler would do nothing under the policy, and markup of texts is never wanted.
        for inline in [" onclick=", " style=", "innerHTML", "insertAdjacentHTML", "eval("] {
            assert!(!page.contains(inline), "{inline}");
        }
        for outside in ["http://", "https://", "src="] {
            let found = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(outside), "{outside}");
        }
    }
}
