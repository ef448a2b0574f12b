//! The attributes of a request under the names that scripts use, with their changes by scripts.

use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderName, Uri, Version, header};
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use tokamak_lua::Attribute;

use crate::client::{Addresses, protocol};
use crate::route;
use crate::route::hosts::{host_of, strip_port};
use crate::site::Site;

/// The characters that are encoded in a target if a script has not done so.
const TARGET: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The data that attributes are read from.
pub struct Origin<'a> {
    /// The site.
    pub site: &'a Site,
    /// The scheme of the request's URL.
    pub scheme: &'a str,
    /// The client's addresses.
    pub addresses: &'a Addresses,
    /// The request's head.
    pub parts: &'a Parts,
    /// Its original target.
    pub original: &'a Uri,
}

fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", PathAndQuery::as_str)
}

impl Origin<'_> {
    /// The value of an attribute that no script has changed.
    pub fn attribute(&self, attribute: Attribute) -> Option<Vec<u8>> {
        let uri = &self.parts.uri;
        let text = match attribute {
            // Known only after the path has been looked up.
            Attribute::PhysicalPath
            | Attribute::PhysicalRelPath
            | Attribute::PhysicalDocRoot
            | Attribute::PhysicalBasedir
            | Attribute::PathInfo => return None,
            Attribute::UriPath => return route::clean(uri.path().as_bytes()),
            Attribute::UriPathRaw => uri.path(),
            Attribute::UriScheme => self.scheme,
            Attribute::UriAuthority => host_of(uri, &self.parts.headers)?,
            Attribute::UriQuery => uri.query()?,
            Attribute::Method => self.parts.method.as_str(),
            Attribute::Uri => target(uri),
            Attribute::OrigUri => target(self.original),
            Attribute::RemoteIp | Attribute::RemoteAddr => &self.addresses.text().peer,
            // Empty, as `REMOTE_PORT` is, for a client that a proxy names without its port.
            Attribute::RemotePort => match self.addresses.peer.port() {
                0 => "",
                port => return Some(port.to_string().into()),
            },
            Attribute::ServerAddr => &self.addresses.text().local,
            Attribute::ServerPort => return Some(self.addresses.local.port().to_string().into()),
            Attribute::Protocol => protocol(self.parts.version),
            Attribute::ServerName => {
                host_of(uri, &self.parts.headers).unwrap_or(&self.site.config.name)
            }
            Attribute::Stage => "handle-req",
        };
        Some(text.as_bytes().to_vec())
    }

    /// Calls `each` with the CGI variables that depend only on the request.
    pub fn variables(&self, each: &mut dyn FnMut(&[u8], &[u8])) {
        let uri = &self.parts.uri;
        each(b"REQUEST_METHOD", self.parts.method.as_str().as_bytes());
        each(b"REQUEST_URI", target(self.original).as_bytes());
        each(b"QUERY_STRING", uri.query().unwrap_or_default().as_bytes());
        each(b"SERVER_PROTOCOL", protocol(self.parts.version).as_bytes());
        each(b"REQUEST_SCHEME", self.scheme.as_bytes());
        if self.scheme == "https" {
            each(b"HTTPS", b"on");
        }
        each(b"DOCUMENT_ROOT", &self.site.root);
        each(b"REMOTE_ADDR", self.addresses.text().peer.as_bytes());
        each(b"REMOTE_PORT", self.addresses.peer.port().to_string().as_bytes());
        each(b"SERVER_ADDR", self.addresses.text().local.as_bytes());
        each(b"SERVER_PORT", self.addresses.local.port().to_string().as_bytes());
        for (name, value) in self.parts.headers.iter().filter(|(name, _)| is_variable(name)) {
            let mut variable = name.as_str().replace('-', "_").to_ascii_uppercase();
            if *name != header::CONTENT_TYPE && *name != header::CONTENT_LENGTH {
                variable.insert_str(0, "HTTP_");
            }
            each(variable.as_bytes(), value.as_bytes());
        }
    }
}

/// Whether a header field becomes a variable, as for applications: an underscore could spoof a dash
/// (`X_Real_Ip`), and HTTP_PROXY is a setting of many libraries (CVE-2016-5385).
fn is_variable(name: &HeaderName) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    name.as_str().bytes().all(is_plain) && name != "proxy"
}

/// Attributes that scripts have changed.
#[derive(Default)]
pub struct Changes(Vec<(Attribute, Vec<u8>)>);

impl Changes {
    /// The value that a script has given to an attribute.
    pub fn get(&self, attribute: Attribute) -> Option<Vec<u8>> {
        let (_, value) = self.0.iter().find(|(changed, _)| *changed == attribute)?;
        (!value.is_empty()).then(|| value.clone())
    }

    /// Records a value, without any other effect.
    pub fn put(&mut self, attribute: Attribute, value: Vec<u8>) {
        self.0.retain(|(changed, _)| *changed != attribute);
        self.0.push((attribute, value));
    }

    /// The CGI variables that follow from changed attributes.
    pub fn variables(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut variables = Vec::new();
        for (attribute, value) in self.0.iter().filter(|(_, value)| !value.is_empty()) {
            let mut add = |name: &str, value: &[u8]| variables.push((name.into(), value.into()));
            match attribute {
                Attribute::RemoteAddr => add("REMOTE_ADDR", value),
                Attribute::RemotePort => add("REMOTE_PORT", value),
                Attribute::UriScheme => {
                    add("REQUEST_SCHEME", value);
                    if value == b"https" {
                        add("HTTPS", b"on");
                    }
                }
                Attribute::UriAuthority => {
                    let host = str::from_utf8(value).map_or("", strip_port);
                    add("SERVER_NAME", host.as_bytes());
                }
                _ => {}
            }
        }
        variables
    }

    fn remove(&mut self, attribute: Attribute) {
        self.0.retain(|(changed, _)| *changed != attribute);
    }

    /// Removes the values that follow from the target, before the target is looked up again.
    pub fn forget_places(&mut self) {
        self.0.retain(|(changed, _)| {
            !matches!(
                changed,
                Attribute::PhysicalPath
                    | Attribute::PhysicalRelPath
                    | Attribute::PhysicalDocRoot
                    | Attribute::PhysicalBasedir
                    | Attribute::PathInfo
                    | Attribute::UriPath
                    | Attribute::UriQuery
            )
        });
    }

    /// Carries out a script's assignment.
    pub fn set(
        &mut self,
        parts: &mut Parts,
        attribute: Attribute,
        value: &[u8],
    ) -> Result<(), String> {
        let name = attribute.name();
        match attribute {
            Attribute::Uri => {
                retarget(parts, value).ok_or_else(|| refused(name, value))?;
                self.remove(Attribute::UriPath);
                self.remove(Attribute::UriQuery);
                self.put(attribute, value.to_vec());
            }
            Attribute::UriPathRaw => {
                self.remove(Attribute::UriPath);
                self.remove(Attribute::Uri);
                let whole = with_query(value, parts.uri.query().map(str::as_bytes));
                return retarget(parts, &whole).ok_or_else(|| refused(name, value));
            }
            Attribute::UriQuery => {
                let query = (!value.is_empty()).then_some(value);
                let whole = with_query(parts.uri.path().as_bytes(), query);
                retarget(parts, &whole).ok_or_else(|| refused(name, value))?;
                // Keep the value as written, because in the target it may be percent-encoded.
                self.put(attribute, value.to_vec());
            }
            Attribute::Protocol => {
                if value == b"HTTP/1.0" {
                    parts.version = Version::HTTP_10;
                }
                return Ok(());
            }
            Attribute::RemoteAddr | Attribute::RemoteIp => {
                let is_address = str::from_utf8(value)
                    .is_ok_and(|text| text.parse::<std::net::IpAddr>().is_ok());
                if !is_address {
                    let value = value.escape_ascii();
                    return Err(format!("r.req_attr['remote-addr'] invalid addr: {value}"));
                }
                self.put(Attribute::RemoteAddr, value.to_vec());
                self.put(Attribute::RemoteIp, value.to_vec());
            }
            Attribute::UriScheme | Attribute::UriAuthority => {
                self.put(attribute, value.to_ascii_lowercase())
            }
            _ => self.put(attribute, value.to_vec()),
        }
        Ok(())
    }
}

fn refused(name: &str, value: &[u8]) -> String {
    format!("r.req_attr['{name}'] cannot be '{}'", value.escape_ascii())
}

fn with_query(path: &[u8], query: Option<&[u8]>) -> Vec<u8> {
    match query {
        Some(query) => [path, b"?", query].concat(),
        None => path.to_vec(),
    }
}

/// Changes path and query; `None` if the value cannot be a target.
fn retarget(parts: &mut Parts, value: &[u8]) -> Option<()> {
    if value.first() != Some(&b'/') {
        return None;
    }
    let text = percent_encode(value, TARGET).to_string();
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    let before = uri.path_and_query.take();
    let target = PathAndQuery::try_from(text).ok();
    let done = target.is_some();
    uri.path_and_query = target.or(before);
    parts.uri = Uri::from_parts(uri).ok()?;
    done.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_that_spoof_no_other_become_variables() {
        for (name, expected) in [
            ("x-request-id", true),
            ("x_request_id", false),
            ("x-request_id", false),
            ("x.request.id", false),
            ("proxy", false),
            ("proxy-authorization", true),
        ] {
            assert_eq!(is_variable(&HeaderName::from_static(name)), expected, "{name}");
        }
    }
}
