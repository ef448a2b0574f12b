//! What records mean, for both sides of a connection.

use crate::{Decoder, Error, Header, Kind, RecordEvent, Values, ValuesQuery};

/// Content of the records that always have eight bytes: FCGI_BeginRequestBody (§5.1),
/// FCGI_EndRequestBody (§5.5) and FCGI_UnknownTypeBody (§4.2).
pub(crate) const BODY_LEN: usize = 8;

/// FCGI_KEEP_CONN (§5.1), the one flag.
pub(crate) const KEEP_CONN: u8 = 1;

/// Most content of a management record that is collected. The three known variables take less than
/// 100 bytes. The bound only limits what a hostile peer can make us hold: ten times more would
/// still be harmless, a tenth would still do.
const MOST_MANAGEMENT: u16 = 4096;

/// What an application is asked to be (§6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers the request, as a CGI program does (§6.2).
    Responder,
    /// Says whether the request may be answered (§6.3).
    Authorizer,
    /// Answers the request by way of a file (§6.4).
    Filter,
    /// None that we know: to be answered [`ProtocolStatus::UnknownRole`].
    Unknown(u16),
}

impl Role {
    /// The role with this number.
    pub fn of(number: u16) -> Role {
        match number {
            1 => Role::Responder,
            2 => Role::Authorizer,
            3 => Role::Filter,
            other => Role::Unknown(other),
        }
    }

    /// Its number.
    pub fn number(self) -> u16 {
        match self {
            Role::Responder => 1,
            Role::Authorizer => 2,
            Role::Filter => 3,
            Role::Unknown(other) => other,
        }
    }
}

/// How a request ended (§5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// In order.
    Complete,
    /// Refused: the application takes one request on a connection at a time.
    CannotMultiplex,
    /// Refused: the application is out of something.
    Overloaded,
    /// Refused: the application does not have this role.
    UnknownRole,
    /// None that we know.
    Unknown(u8),
}

impl ProtocolStatus {
    /// The status with this number.
    pub fn of(number: u8) -> ProtocolStatus {
        match number {
            0 => ProtocolStatus::Complete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            other => ProtocolStatus::Unknown(other),
        }
    }

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            ProtocolStatus::Complete => 0,
            ProtocolStatus::CannotMultiplex => 1,
            ProtocolStatus::Overloaded => 2,
            ProtocolStatus::UnknownRole => 3,
            ProtocolStatus::Unknown(other) => other,
        }
    }
}

/// The streams of a request (§5.2, §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Name-value pairs; see [`crate::params::Pairs`].
    Params,
    /// The request body.
    Stdin,
    /// The file that a Filter works on.
    Data,
    /// The response.
    Stdout,
    /// Complaints.
    Stderr,
}

impl Stream {
    /// The records that it travels in.
    pub fn kind(self) -> Kind {
        match self {
            Stream::Params => Kind::Params,
            Stream::Stdin => Kind::Stdin,
            Stream::Data => Kind::Data,
            Stream::Stdout => Kind::Stdout,
            Stream::Stderr => Kind::Stderr,
        }
    }

    fn of(kind: Kind) -> Option<Stream> {
        [Stream::Params, Stream::Stdin, Stream::Data, Stream::Stdout, Stream::Stderr]
            .into_iter()
            .find(|stream| stream.kind() == kind)
    }
}

/// One thing that was said on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A request begins (§5.1).
    Begin {
        /// Its id from now on.
        id: u16,
        /// What the application is asked to be.
        role: Role,
        /// Whether the connection stays open behind the request; FCGI_KEEP_CONN.
        keep: bool,
    },
    /// The request is not wanted any more (§5.4).
    Abort {
        /// Its id.
        id: u16,
    },
    /// Some of a stream; never empty. Where it is cut says nothing.
    Stream {
        /// The request.
        id: u16,
        /// Which of its streams.
        stream: Stream,
        /// The next bytes.
        bytes: &'a [u8],
    },
    /// A stream is complete: its empty record has come (§3.3).
    StreamEnd {
        /// The request.
        id: u16,
        /// Which of its streams.
        stream: Stream,
    },
    /// A request has ended (§5.5), and its id may be used again.
    End {
        /// Its id until now.
        id: u16,
        /// What the application would have exited with.
        app_status: u32,
        /// Whether it was served at all.
        status: ProtocolStatus,
    },
    /// The web server asks about the application (§4.1).
    GetValues(ValuesQuery),
    /// The application's answer (§4.1).
    Values(Values),
    /// The application does not know this type of management record (§4.2).
    UnknownType(u8),
    /// A management record of a type that we do not know: to be answered with
    /// [`Message::UnknownType`] (§4.2).
    Foreign(u8),
}

/// Reads messages from bytes that come in pieces of any size. What belongs to a stream is never
/// copied.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    decoder: Decoder,
    record: Option<Header>,
    /// Content that means something only as a whole; at most [`MOST_MANAGEMENT`] bytes.
    collected: Vec<u8>,
}

impl Messages {
    /// A reader at the beginning of a connection.
    pub fn new() -> Messages {
        Messages::default()
    }

    /// Takes the next message off the front of `input`; nothing if it needs more bytes than are
    /// there, and then all of them have been taken.
    ///
    /// # Errors
    /// Fails if it is not FastCGI; the connection is of no use then.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Message<'a>>, Error> {
        while let Some(part) = self.decoder.next(input)? {
            match (part, self.record) {
                (RecordEvent::Head(header), _) => {
                    validate(&header)?;
                    self.collected.clear();
                    self.record = Some(header);
                }
                (RecordEvent::Content(bytes), Some(Header { kind, id, .. })) => {
                    match Kind::of(kind).and_then(Stream::of) {
                        Some(stream) => return Ok(Some(Message::Stream { id, stream, bytes })),
                        None if Kind::of(kind).is_some() => self.collected.extend_from_slice(bytes),
                        // Of a type that we do not know: only that it came matters.
                        None => {}
                    }
                }
                (RecordEvent::End, Some(header)) => {
                    if let Some(message) = self.whole(&header)? {
                        return Ok(Some(message));
                    }
                }
                (RecordEvent::Content(_) | RecordEvent::End, None) => {}
            }
        }
        Ok(None)
    }

    /// Whether nothing of a next record has been read: a connection that ends here has not lost
    /// any.
    pub fn is_between_records(&self) -> bool {
        self.decoder.is_between_records()
    }

    /// What a whole record says; nothing for one whose stream has said it already.
    fn whole(&self, header: &Header) -> Result<Option<Message<'static>>, Error> {
        let id = header.id;
        let body: [u8; BODY_LEN] = self.collected.as_slice().try_into().unwrap_or_default();
        Ok(Some(match header.kind() {
            Some(Kind::BeginRequest) => {
                let [high, low, flags, ..] = body;
                let role = Role::of(u16::from_be_bytes([high, low]));
                Message::Begin { id, role, keep: flags & KEEP_CONN != 0 }
            }
            Some(Kind::AbortRequest) => Message::Abort { id },
            Some(Kind::EndRequest) => {
                let [a, b, c, d, status, ..] = body;
                let app_status = u32::from_be_bytes([a, b, c, d]);
                Message::End { id, app_status, status: ProtocolStatus::of(status) }
            }
            Some(Kind::GetValues) => Message::GetValues(ValuesQuery::read(&self.collected)?),
            Some(Kind::GetValuesResult) => Message::Values(Values::read(&self.collected)?),
            Some(Kind::UnknownType) => Message::UnknownType(body[0]),
            Some(kind) => match Stream::of(kind).filter(|_| header.content == 0) {
                Some(stream) => Message::StreamEnd { id, stream },
                None => return Ok(None),
            },
            None => Message::Foreign(header.kind),
        }))
    }
}

/// Whether a header can be that of a record, by its type, id and length.
fn validate(header: &Header) -> Result<(), Error> {
    let &Header { kind: number, id, content: len, .. } = header;
    let Some(kind) = header.kind() else {
        return if id == crate::record::MANAGEMENT { Ok(()) } else { Err(Error::Kind(number)) };
    };
    if kind.is_management() != (id == crate::record::MANAGEMENT) {
        return Err(Error::Id { kind: number, id });
    }
    let fits = match kind {
        Kind::BeginRequest | Kind::EndRequest | Kind::UnknownType => usize::from(len) == BODY_LEN,
        Kind::AbortRequest => len == 0,
        Kind::GetValues | Kind::GetValuesResult => len <= MOST_MANAGEMENT,
        _ => true,
    };
    if fits { Ok(()) } else { Err(Error::Length { kind: number, len }) }
}
