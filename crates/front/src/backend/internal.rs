//! Sends a file in place of a response's body. The application names the file (`X-Accel-Redirect`
//! as in nginx, `X-Sendfile` as in Apache and lighttpd); the front sends it, with ranges and
//! conditions as for any static file.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use http::header::{self, HeaderMap, HeaderName};
use http::{Method, Response};
use tokamak_upstream::unopened::{self, Unopened};

use super::{BackendError, BackendRequest};
use crate::failure::Failure;
use crate::response::Source;
use crate::response::files::{self, OpenFile, Opened};
use crate::route::{self, Target};

const REDIRECT: HeaderName = HeaderName::from_static("x-accel-redirect");
const SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");

/// The file to send.
#[derive(Debug, PartialEq, Eq)]
pub enum FileRedirect {
    /// The file that a URL of the site maps to.
    Url(String),
    /// A file by its absolute path.
    File(PathBuf),
}

/// The file that the application wants sent instead of a body, if it names one.
pub fn redirect_of(headers: &HeaderMap) -> Option<FileRedirect> {
    let text = |name| headers.get(name).and_then(|value| str::from_utf8(value.as_bytes()).ok());
    text(REDIRECT)
        .map(|url| FileRedirect::Url(url.to_owned()))
        .or_else(|| text(SENDFILE).map(|path| FileRedirect::File(path.into())))
}

/// Directories whose files an application may have sent, by the paths under which
/// `X-Accel-Redirect` names them.
pub type Internal = BTreeMap<String, PathBuf>;

/// The response with that file. Its headers are the application's (`own`), except those that
/// describe the file.
///
/// # Errors
/// Fails if the file does not exist, or if the application may not have it sent.
pub fn send(
    call: &BackendRequest<'_>,
    internal: &Internal,
    own: HeaderMap,
    redirect: &FileRedirect,
) -> Result<Response<Source>, BackendError> {
    let found = match redirect {
        FileRedirect::Url(url) => by_url(call, internal, url),
        FileRedirect::File(path) => by_path(call, internal, path),
    };
    let found = found?.ok_or_else(|| BackendError {
        failure: Failure::NotFound,
        reason: match redirect {
            FileRedirect::Url(url) => {
                format!("the application sent X-Accel-Redirect: {url}, but there is no such file")
            }
            FileRedirect::File(path) => {
                format!(
                    "the application sent X-Sendfile: {}, which it may not have sent",
                    path.display()
                )
            }
        }
        .into(),
    })?;
    let method = if call.request.method() == Method::HEAD { Method::HEAD } else { Method::GET };
    let charset = &call.arrival.site.config.charset;
    let files::FileResponse { status, headers, body } =
        files::plan(found, &method, call.request.headers(), charset)?;
    let mut response = Response::new(Source::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    merge(own, &mut response);
    Ok(response)
}

/// Adds the application's headers to those of the file.
fn merge(own: HeaderMap, response: &mut Response<Source>) {
    /// Headers that only the sender of the file can know.
    const OF_THE_FILE: [HeaderName; 7] = [
        header::CONTENT_LENGTH,
        header::CONTENT_ENCODING,
        header::CONTENT_RANGE,
        header::ETAG,
        header::LAST_MODIFIED,
        REDIRECT,
        SENDFILE,
    ];
    let has_own_type = response.status() != http::StatusCode::OK;
    let mut last = None;
    for (name, value) in own {
        let is_new = name.is_some();
        last = name.or(last);
        let Some(name) = &last else { continue };
        if OF_THE_FILE.contains(name) || (has_own_type && *name == header::CONTENT_TYPE) {
            continue;
        }
        if *name == header::VARY {
            // Both hold: the file may depend on other fields than the application does.
            let all = response.headers().get_all(name);
            if !all.iter().any(|its| its.as_bytes().eq_ignore_ascii_case(value.as_bytes())) {
                response.headers_mut().append(name.clone(), value);
            }
        } else if is_new {
            response.headers_mut().insert(name.clone(), value);
        } else {
            response.headers_mut().append(name.clone(), value);
        }
    }
}

/// The file; `Ok(None)`: there is none that may be sent.
type Searched = Result<Option<OpenFile>, BackendError>;

fn by_url(call: &BackendRequest<'_>, internal: &Internal, url: &str) -> Searched {
    let path = url.split(['?', '#']).next().and_then(|path| route::clean(path.as_bytes()));
    let Some(path) = path else { return Ok(None) };
    let router = &call.arrival.site.router;
    let inner = router.inner(path.clone(), None).ok();
    // A mounted site names its directories as it would without a mount, or as its clients see it.
    for path in [Some(&path), inner.as_ref()].into_iter().flatten() {
        let Ok(path) = str::from_utf8(path) else { return Ok(None) };
        for (prefix, directory) in internal {
            if let Some(rest) = path.strip_prefix(prefix.as_str()) {
                return open(&directory.join(rest));
            }
        }
    }
    inner.map_or(Ok(None), |inner| file(router.find_plain(&inner)))
}

fn by_path(call: &BackendRequest<'_>, internal: &Internal, path: &Path) -> Searched {
    // Only the text of the path is checked. A user who may place symbolic links there may place
    // files too.
    let is_plain = path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
    if !is_plain {
        return Ok(None);
    }
    if internal.values().any(|directory| path.starts_with(directory)) {
        return open(path);
    }
    // A file of the site is treated as its URL would be: no PHP source, no hidden files.
    let router = &call.arrival.site.router;
    let Ok(below) = path.strip_prefix(router.root()) else { return Ok(None) };
    file(router.find_plain(&[b"/", below.as_os_str().as_encoded_bytes()].concat()))
}

fn file(target: Target) -> Searched {
    match target {
        Target::File(found) => Ok(Some(found)),
        Target::Unreadable(Failure::Forbidden, _) => Ok(None),
        Target::Unreadable(failure, reason) => Err(BackendError { failure, reason: reason.into() }),
        _ => Ok(None),
    }
}

fn open(path: &Path) -> Searched {
    match files::open(path) {
        Ok(Opened::Regular(found)) => Ok(Some(found)),
        Ok(Opened::Directory | Opened::Special) => Ok(None),
        Err(error) => match Unopened::of(&error) {
            Unopened::Missing | Unopened::Denied => Ok(None),
            unopened => {
                let reason = unopened::reason(path, &error).into();
                Err(BackendError { failure: unopened.into(), reason })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_are_merged() {
        let file = [("vary", "Accept-Encoding"), ("etag", "\"file\""), ("content-type", "a/b")];
        for (own, name, expected) in [
            (&[("vary", "Cookie")][..], "vary", &["Accept-Encoding", "Cookie"][..]),
            (&[("vary", "accept-encoding")], "vary", &["Accept-Encoding"]),
            (&[("vary", "A"), ("vary", "B")], "vary", &["Accept-Encoding", "A", "B"]),
            (&[("etag", "\"page\"")], "etag", &["\"file\""]),
            (&[("content-type", "c/d")], "content-type", &["c/d"]),
            (&[("set-cookie", "a=1"), ("set-cookie", "b=2")], "set-cookie", &["a=1", "b=2"]),
        ] {
            let mut response = Response::new(Source::Empty);
            *response.headers_mut() = map(&file);
            merge(map(own), &mut response);
            let all: Vec<_> = response.headers().get_all(name).iter().collect();
            assert_eq!(all, expected, "{own:?}");
        }
    }
}
