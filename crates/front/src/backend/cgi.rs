//! The description of a request for an application, in the terms of CGI (RFC 3875), whichever
//! protocol the application speaks.

use http::{HeaderValue, header};
use tokamak_upstream::record::{Field, Fields, Writer};

use super::response_head::Decimal;
use super::{Arrival, BackendRequest};
use crate::client::{Addresses, protocol};

/// Variables that an authorizer gave to a request that it allowed.
pub type Variables = Vec<(String, HeaderValue)>;

/// Receives the parameters of a request: every field in the order of [`Field::ALL`], then the
/// headers, then variables.
pub trait ParamSink {
    /// Receives the next field.
    fn field(&mut self, field: Field, value: &[u8]);
    /// Receives the next fields, which are those of the connection.
    fn addresses(&mut self, addresses: &Addresses) {
        describe_addresses(addresses, |field, value| self.field(field, value));
    }
    /// Receives the next header. All values of a name come one after the other.
    fn header(&mut self, name: &[u8], value: &[u8]);
    /// Receives the next variable. It replaces an earlier one of the same name.
    fn variable(&mut self, name: &[u8], value: &[u8]);
}

impl ParamSink for Writer {
    fn field(&mut self, field: Field, value: &[u8]) {
        Writer::field(self, field, value);
    }

    fn addresses(&mut self, addresses: &Addresses) {
        self.fields(addresses.record.get_or_init(|| {
            let mut fields = Fields::from(Field::ServerAddr);
            describe_addresses(addresses, |field, value| _ = fields.field(field, value));
            fields
        }));
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        Writer::header(self, name, value);
    }

    fn variable(&mut self, name: &[u8], value: &[u8]) {
        Writer::variable(self, name, value);
    }
}

fn describe_addresses(addresses: &Addresses, mut field: impl FnMut(Field, &[u8])) {
    let mut number = Decimal::default();
    field(Field::ServerAddr, addresses.text().local.as_bytes());
    field(Field::ServerPort, number.text(addresses.local.port().into()));
    field(Field::RemoteAddr, addresses.text().peer.as_bytes());
    // Empty, as nginx's `$remote_port`, for a client that a proxy names without its port.
    match addresses.peer.port() {
        0 => field(Field::RemotePort, b""),
        port => field(Field::RemotePort, number.text(port.into())),
    }
}

/// Describes a request to `sink`. Its body has been read and has this length.
pub fn describe(sink: &mut impl ParamSink, call: &BackendRequest<'_>, length: u64) {
    let mut number = Decimal::default();
    let BackendRequest { arrival: Arrival { site, caller, .. }, request, script, .. } = *call;
    let uri = request.uri();
    let headers = request.headers();
    sink.field(Field::Method, request.method().as_str().as_bytes());
    sink.field(Field::Uri, uri.path_and_query().map_or("/", |p| p.as_str()).as_bytes());
    let query = script.query().or(uri.query()).unwrap_or("");
    sink.field(Field::Query, query.as_bytes());
    sink.field(Field::ScriptFilename, script.filename.as_os_str().as_encoded_bytes());
    sink.field(Field::ScriptName, &script.script_name);
    sink.field(Field::PathInfo, script.path_info());
    sink.field(Field::DocumentRoot, &site.root);
    // As with nginx, whose `try_files` goes on with the script's own name.
    sink.field(Field::DocumentUri, &script.path());
    // A request of HTTP/1.0 may name no host.
    let server_name = match site.server_name(request) {
        "" => caller.addresses().text().local.as_str(),
        name => name,
    };
    sink.field(Field::ServerName, server_name.as_bytes());
    sink.addresses(caller.addresses());
    sink.field(Field::Protocol, protocol(request.version()).as_bytes());
    sink.field(Field::Scheme, caller.scheme().as_bytes());
    sink.field(Field::ContentType, headers.get(header::CONTENT_TYPE).map_or(b"", |v| v.as_bytes()));
    // Without a body CONTENT_LENGTH is left out, unless the client sent a length of 0 itself, or a
    // body in chunks that has none: some applications take a POST without a length for an error.
    let said = headers.contains_key(header::CONTENT_LENGTH);
    let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
    let text = if length > 0 || said || is_chunked { number.text(length) } else { b"" };
    sink.field(Field::ContentLength, text);
    for (name, value) in headers {
        // The body has been read whole, so the framing that the client used no longer holds.
        if name != header::TRANSFER_ENCODING && name != header::CONTENT_LENGTH {
            sink.header(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if said {
        sink.header(b"content-length", number.text(length));
    }
    if let Some(session) = &caller.addresses().tls {
        session.variables(|name, value| sink.variable(name.as_bytes(), value.as_bytes()));
    }
    for (name, value) in call.variables {
        sink.variable(name.as_bytes(), value.as_bytes());
    }
}
