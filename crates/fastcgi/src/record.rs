//! The frame: eight bytes of header, content, padding (§3.3).
//!
//! ```text
//! version  type  request id (2)  content length (2)  padding length  reserved   content   padding
//! ```

use crate::Error;

/// Bytes of a header; FCGI_HEADER_LEN (§8).
pub const HEADER_LEN: usize = 8;

/// The one version that there is; FCGI_VERSION_1 (§8).
pub const VERSION: u8 = 1;

/// The request id of management records; FCGI_NULL_REQUEST_ID (§8).
pub const MANAGEMENT: u16 = 0;

/// Most content that we put into one record: a multiple of 8, so that it needs no padding. A record
/// whose content and padding together pass 65535 is legal, but known peers add the two in 16 bits.
pub const MOST_CONTENT: usize = 65_528;

macro_rules! kinds {
    ($($Name:ident = $number:literal $what:literal)*) => {
        /// What a record is for (§8).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $what] $Name = $number,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &[Kind] = &[$(Kind::$Name),*];

            /// The kind with this number.
            pub fn of(number: u8) -> Option<Kind> {
                match number {
                    $($number => Some(Kind::$Name),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    BeginRequest = 1 "FCGI_BEGIN_REQUEST (§5.1): the web server starts a request."
    AbortRequest = 2 "FCGI_ABORT_REQUEST (§5.4): the web server wants no more of it."
    EndRequest = 3 "FCGI_END_REQUEST (§5.5): the application has ended a request."
    Params = 4 "FCGI_PARAMS (§5.2): a stream of name-value pairs."
    Stdin = 5 "FCGI_STDIN (§5.3): the request body."
    Stdout = 6 "FCGI_STDOUT (§5.3): the response, headers and body."
    Stderr = 7 "FCGI_STDERR (§5.3): what the application has to complain about."
    Data = 8 "FCGI_DATA (§5.3): the file that a Filter works on."
    GetValues = 9 "FCGI_GET_VALUES (§4.1): the web server asks what the application can."
    GetValuesResult = 10 "FCGI_GET_VALUES_RESULT (§4.1): the answer."
    UnknownType = 11 "FCGI_UNKNOWN_TYPE (§4.2): the answer to a management record of a type that \
        is not known."
}

impl Kind {
    /// Whether records of this kind are about the connection, not about a request (§3.3).
    pub fn is_management(self) -> bool {
        matches!(self, Kind::GetValues | Kind::GetValuesResult | Kind::UnknownType)
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type as sent, known to us or not; see [`Header::kind`].
    pub kind: u8,
    /// The request that the record is about; [`MANAGEMENT`] for none.
    pub id: u16,
    /// Bytes of content.
    pub content: u16,
    /// Bytes to skip behind the content.
    pub padding: u8,
}

impl Header {
    /// A header for this much content, padded so that the next record starts at a multiple of eight
    /// (§3.3 recommends it). An empty record is not padded: known peers take its padding for the
    /// next record.
    pub fn new(kind: Kind, id: u16, content: u16) -> Header {
        Header { kind: kind as u8, id, content, padding: (content.wrapping_neg() % 8) as u8 }
    }

    /// The kind, if there is one with this number.
    pub fn kind(&self) -> Option<Kind> {
        Kind::of(self.kind)
    }

    /// As on the wire.
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let ([id_high, id_low], [high, low]) = (self.id.to_be_bytes(), self.content.to_be_bytes());
        [VERSION, self.kind, id_high, id_low, high, low, self.padding, 0]
    }

    /// From the wire.
    ///
    /// # Errors
    /// Fails for another version: nothing that follows can be read.
    pub fn parse(bytes: [u8; HEADER_LEN]) -> Result<Header, Error> {
        let [version, kind, id_high, id_low, high, low, padding, _reserved] = bytes;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        Ok(Header {
            kind,
            id: u16::from_be_bytes([id_high, id_low]),
            content: u16::from_be_bytes([high, low]),
            padding,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::of(kind as u8), Some(kind));
            let header = Header { kind: kind as u8, id: 0x1234, content: 0xfedc, padding: 255 };
            assert_eq!(Header::parse(header.bytes()), Ok(header));
        }
        assert_eq!(Kind::of(0), None);
        assert_eq!(Kind::of(12), None);
    }

    #[test]
    fn padding_aligns_and_never_overflows() {
        for (content, padding) in [(0, 0), (1, 7), (7, 1), (8, 0), (9, 7), (MOST_CONTENT as u16, 0)]
        {
            assert_eq!(Header::new(Kind::Stdin, 1, content).padding, padding, "{content}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        let mut bytes = Header::new(Kind::Stdout, 1, 0).bytes();
        for version in [0, 2, 255] {
            bytes[0] = version;
            assert_eq!(Header::parse(bytes), Err(Error::Version(version)));
        }
    }
}
