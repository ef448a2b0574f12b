//! What an application is told of a request, in the terms of CGI (RFC 3875), whichever way it is
//! told.

use http::{HeaderValue, Version, header};
use tokamak_upstream::record::{Field, Writer};

use crate::application::Call;
use crate::head::Decimal;

/// Variables that an authorizer gave to a request that it allowed.
pub type Variables = Vec<(String, HeaderValue)>;

/// Somebody who is told about a request: every field in the order of [`Field::ALL`], then the
/// headers, then variables.
pub trait Told {
    /// The next field.
    fn field(&mut self, field: Field, value: &[u8]);
    /// The next header. All values of a name come one after the other.
    fn header(&mut self, name: &[u8], value: &[u8]);
    /// The next variable, which takes the place of one with its name.
    fn variable(&mut self, name: &[u8], value: &[u8]);
}

impl Told for Writer {
    fn field(&mut self, field: Field, value: &[u8]) {
        Writer::field(self, field, value);
    }

    fn header(&mut self, name: &[u8], value: &[u8]) {
        Writer::header(self, name, value);
    }

    fn variable(&mut self, name: &[u8], value: &[u8]) {
        Writer::variable(self, name, value);
    }
}

/// Tells about a request whose body has been gathered and has this length.
pub fn describe(told: &mut impl Told, call: &Call<'_>, length: u64) {
    let mut number = Decimal::default();
    let Call { place, caller, request, script, .. } = *call;
    let addresses = caller.addresses();
    let uri = request.uri();
    let headers = request.headers();
    told.field(Field::Method, request.method().as_str().as_bytes());
    told.field(Field::Uri, uri.path_and_query().map_or("/", |p| p.as_str()).as_bytes());
    told.field(Field::Query, uri.query().unwrap_or("").as_bytes());
    told.field(Field::ScriptFilename, script.filename.as_os_str().as_encoded_bytes());
    told.field(Field::ScriptName, &script.script_name);
    told.field(Field::PathInfo, &script.path_info);
    told.field(Field::DocumentRoot, &place.root);
    // As with nginx, whose `try_files` goes on with the script's own name.
    told.field(Field::DocumentUri, &script.script_name);
    told.field(Field::ServerName, place.server_name(request).as_bytes());
    told.field(Field::ServerAddr, addresses.text.local.as_bytes());
    told.field(Field::ServerPort, number.text(addresses.local.port().into()));
    told.field(Field::RemoteAddr, addresses.text.peer.as_bytes());
    told.field(Field::RemotePort, number.text(addresses.peer.port().into()));
    let protocol = if request.version() == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" };
    told.field(Field::Protocol, protocol.as_bytes());
    told.field(Field::Scheme, b"http");
    told.field(Field::ContentType, headers.get(header::CONTENT_TYPE).map_or(b"", |v| v.as_bytes()));
    // Without a body nothing is said, unless the client said "0" itself.
    let said = headers.contains_key(header::CONTENT_LENGTH);
    let text = if length > 0 || said { number.text(length) } else { b"" };
    told.field(Field::ContentLength, text);
    for (name, value) in headers {
        // The body has been gathered and is complete: how it was framed no longer holds.
        if name != header::TRANSFER_ENCODING && name != header::CONTENT_LENGTH {
            told.header(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    if said {
        told.header(b"content-length", number.text(length));
    }
    for (name, value) in call.variables {
        told.variable(name.as_bytes(), value.as_bytes());
    }
}
