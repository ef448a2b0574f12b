//! Which responses are compressed, and how.

/// A content coding that compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Zstandard (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932).
    Br,
    /// DEFLATE with gzip's head (RFC 1952).
    Gzip,
}

impl Coding {
    /// All of them, in the order in which the server prefers them.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Br, Coding::Gzip];

    /// The name in `Accept-Encoding` and `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Br => "br",
            Coding::Gzip => "gzip",
        }
    }
}

/// Which responses of a site, or of a part of it, are compressed.
#[derive(Clone, Debug, PartialEq)]
pub struct Compression {
    /// The codings, the preferred one first; empty: nothing is compressed.
    pub codings: Vec<Coding>,
    /// Media types in lower case, without parameters. A `*` at the start or at the end stands for
    /// any text.
    pub types: Vec<String>,
    /// Bytes of the smallest body that is compressed.
    pub smallest: usize,
    /// Whether responses to requests are compressed that a page of another site has made with the
    /// user's cookies or credentials.
    pub cross_site: bool,
}
