//! The state of the screen between two bytes; the diagram is in the parent module.

/// Where in the message the next byte belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Before the first byte of a request.
    Start,
    /// After the carriage return of an empty line before a request.
    BlankLf,
    /// After an empty line before a request.
    Blank,
    Method,
    Target,
    /// After this many bytes of `HTTP/1.1` and its carriage return.
    Version(u8),
    /// After the carriage return of the request line or of a field.
    LineLf,
    /// At the beginning of a header or trailer line.
    FieldStart,
    Name,
    Value,
    /// After the carriage return of the empty line that ends a head or the trailers.
    HeadLf,
    /// This many bytes of the body are missing.
    Length(u64),
    ChunkSize,
    ChunkExtension,
    ChunkSizeLf,
    /// This many bytes of the chunk are missing.
    ChunkData(u64),
    ChunkCr,
    ChunkLf,
}

impl State {
    /// Whether the next byte belongs to a body or to the framing of its chunks, trailers apart.
    pub(super) fn is_payload(self) -> bool {
        use State::{ChunkCr, ChunkData, ChunkExtension, ChunkLf, ChunkSize, ChunkSizeLf, Length};
        matches!(
            self,
            Length(_) | ChunkSize | ChunkExtension | ChunkSizeLf | ChunkData(_) | ChunkCr | ChunkLf
        )
    }
}

/// How long the body of the current request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(u64),
    Chunked,
}
