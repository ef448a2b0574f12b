//! Encodes the variables of a request as FastCGI parameters: those of nginx's `fastcgi_params`, the
//! headers as `HTTP_…`, and those that the operator adds.

use std::collections::BTreeMap;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use tokamak_config as config;
use tokamak_upstream::body::Body;
use tokamak_upstream::record::Field;
use tokamak_upstream::remote::{self, Params, Role};

use crate::backend::BackendRequest;
use crate::backend::cgi::{self, ParamSink};
use crate::backend::response_head::Decimal;
use crate::failure::Failure;
use crate::log;
use crate::response::files::OpenFile;

/// The parameters that are the same for every request. Without REDIRECT_STATUS php-cgi refuses
/// every request.
pub const CONSTANT: [(&str, &[u8]); 3] = [
    ("GATEWAY_INTERFACE", b"CGI/1.1"),
    ("SERVER_SOFTWARE", concat!("Tokamak/", env!("CARGO_PKG_VERSION")).as_bytes()),
    ("REDIRECT_STATUS", b"200"),
];

/// The request for an application that answers it.
///
/// # Errors
/// Fails if a parameter does not fit into a record.
pub fn responder(
    call: &BackendRequest<'_>,
    config: &config::Upstream,
    keep: bool,
    body: Body,
) -> Result<remote::Call, Failure> {
    request(call, config, keep, Role::Responder, body, &[])
}

/// The request for an authorizer, which decides whether it may be served (§6.3): without the body,
/// and without the parameters that only responders get.
///
/// # Errors
/// As [`responder`].
pub fn authorizer(
    call: &BackendRequest<'_>,
    config: &config::Upstream,
    keep: bool,
) -> Result<remote::Call, Failure> {
    request(call, config, keep, Role::Authorizer, Body::Empty, &[])
}

/// The request for an application that makes a response of a file (§6.4).
///
/// # Errors
/// As [`responder`].
pub fn filter(
    call: &BackendRequest<'_>,
    config: &config::Upstream,
    keep: bool,
    file: OpenFile,
) -> Result<remote::Call, Failure> {
    let about = [
        ("FCGI_DATA_LAST_MOD", u64::try_from(file.modified).unwrap_or(0)),
        ("FCGI_DATA_LENGTH", file.len),
    ];
    let data = if file.len == 0 { Body::Empty } else { Body::spooled(file.file, file.len) };
    Ok(request(call, config, keep, Role::Filter, Body::Empty, &about)?.with_data(data))
}

fn request(
    call: &BackendRequest<'_>,
    config: &config::Upstream,
    keep: bool,
    role: Role,
    body: Body,
    about: &[(&str, u64)],
) -> Result<remote::Call, Failure> {
    let length = body.left();
    // The request is described before the body is moved, because the description reads its length.
    let described = |params: &mut Params<'_>| {
        let mut parameters = Parameters {
            params,
            role,
            changed: &config.params,
            variables: call.variables,
            header: Vec::new(),
            value: Vec::new(),
            fits: true,
        };
        cgi::describe(&mut parameters, call, length);
        // The name that the client claims. The application must check it, as behind nginx.
        let authorization = call.request.headers().get(AUTHORIZATION);
        let user = authorization.and_then(|value| log::user(value.as_bytes())).unwrap_or_default();
        parameters.add(b"REMOTE_USER", &user);
        for (name, number) in about {
            parameters.add(name.as_bytes(), Decimal::default().text(*number));
        }
        parameters.finish()
    };
    remote::Call::fastcgi(role, keep, call.is_repeatable, body, described)
}

/// Writes parameters while the request is described.
struct Parameters<'a, 'b> {
    params: &'a mut Params<'b>,
    role: Role,
    /// The operator's parameters. They replace others of the same name.
    changed: &'a BTreeMap<String, config::Secret>,
    /// The authorizer's variables. They replace all others except the operator's.
    variables: &'a [(String, HeaderValue)],
    /// The parameter of the last header: another value of it may follow. Empty before the first
    /// header.
    header: Vec<u8>,
    value: Vec<u8>,
    fits: bool,
}

impl Parameters<'_, '_> {
    fn add(&mut self, name: &[u8], value: &[u8]) {
        let is_given = self.variables.iter().any(|(given, _)| given.as_bytes() == name);
        if !is_given {
            self.add_unless_changed(name, value);
        }
    }

    fn add_unless_changed(&mut self, name: &[u8], value: &[u8]) {
        let is_changed = !self.changed.is_empty()
            && str::from_utf8(name).is_ok_and(|name| self.changed.contains_key(name));
        if !is_changed {
            self.fits &= self.params.pair(name, value).is_ok();
        }
    }

    fn flush_header(&mut self) {
        if !self.header.is_empty() {
            let (header, value) =
                (std::mem::take(&mut self.header), std::mem::take(&mut self.value));
            self.add(&header, &value);
            (self.header, self.value) = (header, value);
            self.header.clear();
            self.value.clear();
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.flush_header();
        for (name, value) in CONSTANT {
            self.add(name.as_bytes(), value);
        }
        for (name, value) in self.changed {
            let value = value.reveal().as_bytes();
            if !value.is_empty() {
                self.fits &= self.params.pair(name.as_bytes(), value).is_ok();
            }
        }
        if self.fits { Ok(()) } else { Err(Failure::HeadTooLarge) }
    }
}

impl ParamSink for Parameters<'_, '_> {
    fn field(&mut self, field: Field, value: &[u8]) {
        const WITHHELD: [Field; 4] =
            [Field::ScriptFilename, Field::ScriptName, Field::PathInfo, Field::ContentLength];
        if self.role == Role::Authorizer && WITHHELD.contains(&field) {
            return;
        }
        self.add(field.variable().as_bytes(), value);
        if field == Field::Scheme && value == b"https" {
            self.add(b"HTTPS", b"on");
        }
    }

    /// As nginx does, a header whose name has other characters is dropped: an underscore could
    /// spoof a dash (`X_Real_Ip`). `Proxy` is dropped because HTTP_PROXY is a setting of many
    /// libraries (CVE-2016-5385).
    fn header(&mut self, name: &[u8], value: &[u8]) {
        let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        let is_withheld =
            self.role == Role::Authorizer && name.eq_ignore_ascii_case(b"content-length");
        if !is_plain || is_withheld || name.eq_ignore_ascii_case(b"proxy") {
            return;
        }
        let variable =
            name.iter().map(|byte| if *byte == b'-' { b'_' } else { byte.to_ascii_uppercase() });
        let is_same =
            self.header.get(5..).is_some_and(|last| last.iter().copied().eq(variable.clone()));
        if is_same {
            self.value.extend_from_slice(if name.eq_ignore_ascii_case(b"cookie") {
                b"; "
            } else {
                b", "
            });
        } else {
            self.flush_header();
            self.header.extend_from_slice(b"HTTP_");
            self.header.extend(variable);
        }
        self.value.extend_from_slice(value);
    }

    fn variable(&mut self, name: &[u8], value: &[u8]) {
        self.add_unless_changed(name, value);
    }
}
