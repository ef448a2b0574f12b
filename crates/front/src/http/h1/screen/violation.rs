//! The table of all violations: what a client can do wrong before there is a request.

use crate::failure::Failure;

macro_rules! violations {
    ($($name:ident $failure:ident $reason:literal)*) => {
        /// The first thing that is wrong with the bytes of a client.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Violation {
            $(#[doc = $reason] $name,)*
        }

        impl Violation {
            /// All of them, in the order of the table.
            pub const ALL: &[Violation] = &[$(Violation::$name),*];

            /// The text for the log. The client gets only the text of [`Violation::failure`].
            pub fn reason(self) -> &'static str {
                match self {
                    $(Violation::$name => $reason,)*
                }
            }

            /// The failure for the client.
            pub fn failure(self) -> Failure {
                match self {
                    $(Violation::$name => Failure::$failure,)*
                }
            }
        }
    };
}

violations! {
    BareCr              BadRequest         "carriage return without line feed"
    BareLf              BadRequest         "line feed without carriage return"
    ControlByte         BadRequest         "control character in the head"
    EmptyLines          BadRequest         "more than one empty line before a request"
    BadMethod           BadRequest         "method is not a token"
    MethodRefused       MethodNotAllowed   "method CONNECT or TRACE"
    BadTarget           BadRequest         "malformed request target"
    NotHttp             BadRequest         "not HTTP"
    TargetTooLong       UriTooLong         "request line too long"
    BadVersion          BadRequest         "malformed HTTP version"
    Http2               VersionUnsupported "HTTP/2 where the connection does not begin, or is switched off"
    OtherVersion        VersionUnsupported "HTTP version other than 1"
    ObsoleteFold        BadRequest         "header line folded or starting with white space"
    BadFieldName        BadRequest         "header name is not a token"
    SpaceBeforeColon    BadRequest         "white space between header name and colon"
    TooManyFields       HeadTooLarge       "too many header lines"
    HeadTooLarge        HeadTooLarge       "head too large"
    BadLength           BadRequest         "malformed Content-Length"
    TwoLengths          BadRequest         "more than one Content-Length"
    LengthAndCoding     BadRequest         "both Content-Length and Transfer-Encoding"
    BadCoding           BadRequest         "malformed Transfer-Encoding"
    TwoCodings          BadRequest         "more than one Transfer-Encoding"
    OldCoding           BadRequest         "Transfer-Encoding in HTTP/1.0"
    UnknownCoding       NotImplemented     "transfer coding other than chunked"
    NoHost              BadRequest         "no Host"
    TwoHosts            BadRequest         "more than one Host"
    BadHost             BadRequest         "malformed Host"
    OtherHost           BadRequest         "Host differs from the request target"
    BodyTooLarge        BodyTooLarge       "body too large"
    BadChunkSize        BadRequest         "malformed chunk size"
    BadChunkExtension   BadRequest         "malformed or too long chunk extension"
    BadChunkEnd         BadRequest         "chunk longer than its size"
    BadTrailer          BadRequest         "trailer field that belongs into the head"
    TrailersTooLarge    HeadTooLarge       "trailers too large"
}
