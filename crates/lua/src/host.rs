//! What a run sees of its request and changes in the response: the border to the code that serves
//! requests.

use std::any::Any;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::cache::{CachedResponse, Override, Purge};
use crate::call::{Call, RedisServer, Waiting};

/// Whose header fields or body are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The request's.
    Request,
    /// The response's.
    Response,
}

/// One piece of a response's body.
#[derive(Debug)]
pub enum Piece {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A part of a file, which is long enough now.
    File {
        /// The file.
        file: File,
        /// The first byte.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
}

/// Declares the attributes of a request: variant, name in `lighty.r.req_attr`, whether scripts may
/// change it.
macro_rules! attributes {
    ($($variant:ident $name:literal $writable:literal $doc:literal,)*) => {
        /// A part of the request that scripts know by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Attribute {
            $(#[doc = $doc] $variant,)*
        }

        impl Attribute {
            /// All of them, in the order in which `pairs` shows them.
            pub const ALL: &[Attribute] = &[$(Attribute::$variant,)*];

            /// Its name in `lighty.r.req_attr`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Attribute::$variant => $name,)*
                }
            }

            /// What it is, for people.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Attribute::$variant => $doc,)*
                }
            }

            /// Whether a script's assignment does anything; if not, it is ignored.
            pub fn is_writable(self) -> bool {
                match self {
                    $(Attribute::$variant => $writable,)*
                }
            }

            /// The attribute of that name.
            pub fn named(name: &[u8]) -> Option<Attribute> {
                Attribute::ALL.iter().copied().find(|attribute| attribute.name().as_bytes() == name)
            }
        }
    };
}

attributes! {
    PhysicalPath "physical.path" true "The file that the request means; nothing before the path \
        is known.",
    PhysicalRelPath "physical.rel-path" true "That file's path below the document root.",
    PhysicalDocRoot "physical.doc-root" true "The document root.",
    PhysicalBasedir "physical.basedir" true "The folder that the file's path is below; the \
        document root mostly.",
    UriPath "uri.path" true "The path, decoded and simplified.",
    UriPathRaw "uri.path-raw" true "The path as it was sent.",
    UriScheme "uri.scheme" true "`http` or `https`.",
    UriAuthority "uri.authority" true "The host that was asked for, with its port.",
    UriQuery "uri.query" true "What follows the question mark.",
    Method "request.method" false "The method.",
    Uri "request.uri" true "Path and query as they were sent, or as a script changed them.",
    OrigUri "request.orig-uri" true "Path and query as they were sent.",
    PathInfo "request.path-info" true "What follows the file's name in the path.",
    RemoteIp "request.remote-ip" true "The client's address; `request.remote-addr` by its newer \
        name.",
    RemoteAddr "request.remote-addr" true "The client's address.",
    RemotePort "request.remote-port" true "The client's port; empty if a proxy names the client \
        without it.",
    ServerAddr "request.server-addr" false "The address that the client connected to.",
    ServerPort "request.server-port" false "The port that the client connected to.",
    Protocol "request.protocol" true "`HTTP/1.1` or `HTTP/1.0`; only the change to `HTTP/1.0` is \
        obeyed.",
    ServerName "request.server-name" false "The name that the server goes by for this request.",
    Stage "request.stage" false "What the server is doing with the request.",
}

/// Declares the numbers of a request: variant and name in `lighty.r.req_item`.
macro_rules! items {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// A number of the request that scripts know by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Item {
            $(#[doc = $doc] $variant,)*
        }

        impl Item {
            /// All of them.
            pub const ALL: &[Item] = &[$(Item::$variant,)*];

            /// Its name in `lighty.r.req_item`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Item::$variant => $name,)*
                }
            }

            /// What it is, for people.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Item::$variant => $doc,)*
                }
            }

            /// The item of that name.
            pub fn named(name: &[u8]) -> Option<Item> {
                Item::ALL.iter().copied().find(|item| item.name().as_bytes() == name)
            }
        }
    };
}

items! {
    BytesIn "bytes_in" "Bytes of the request that have arrived.",
    BytesOut "bytes_out" "Bytes of the response that have been sent.",
    StreamId "stream_id" "The stream, of protocols that have several on a connection.",
    RequestCount "req_count" "Which request of its connection this is, from 1.",
    StartTime "start_time" "When the request began: a function that gives seconds and nanoseconds.",
    KeepAlive "keep_alive" "Whether the connection is kept: 0 and -1 close it, and may be assigned.",
    HttpStatus "http_status" "The status so far, 0 if there is none.",
    RequestHeaderLen "req_header_len" "Bytes of the request's header.",
    ResponseHeaderLen "resp_header_len" "Bytes of the response's header.",
}

/// What a script runs for: the part that all kinds of runs have.
///
/// Beside that a run is for an HTTP request ([`HttpContext`]), or takes the place of a program
/// ([`Program`]).
pub trait Host: Any + Send {
    /// The HTTP request, if the run is for one.
    fn http(&mut self) -> Option<&mut dyn HttpContext> {
        None
    }

    /// The streams of a program, if the run takes the place of one.
    fn program(&mut self) -> Option<&mut dyn Program> {
        None
    }

    /// A variable as applications of the Common Gateway Interface know it.
    fn variable(&mut self, name: &[u8]) -> Option<Vec<u8>>;

    /// Writes a line into the error log; it may consist of several.
    fn log(&mut self, text: &str);

    /// Something that is done after a while.
    fn sleep(&mut self, time: Duration) -> Waiting;

    /// Begins a call.
    fn call(&mut self, call: Call<'_>) -> Waiting;

    /// A number for a Redis server, the same for every run of this event loop.
    ///
    /// # Errors
    /// Fails with a message for the script.
    fn redis(&mut self, server: RedisServer) -> Result<u32, String>;
}

/// A program's streams: a request's body comes in, what the script prints goes out.
pub trait Program: Host {
    /// The next bytes of the request's body, at most `most`; none at its end.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>>;

    /// Adds to the response. Whether so much waits to be sent that the script had better wait, too.
    ///
    /// # Errors
    /// Fails if too much waits already.
    fn write(&mut self, bytes: &[u8]) -> Result<bool, String>;

    /// Says something to the web server's error log.
    fn write_stderr(&mut self, bytes: &[u8]);

    /// Done when what has been written is on its way.
    fn sent(&mut self) -> Waiting;
}

/// Another request that is being served, as it is at a moment.
#[derive(Debug, Default)]
pub struct Other {
    /// Those attributes that have a value.
    pub attributes: Vec<(Attribute, Vec<u8>)>,
    /// Its items, as [`HttpContext::item`] returns them.
    pub items: Vec<(Item, (i64, i64))>,
    /// Its header fields.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A request that scripts run for, and its response.
///
/// Names of header fields are compared without regard to case; what scripts give is checked before
/// it comes here.
pub trait HttpContext: Host {
    /// Calls `each` with every value of a header field.
    fn values(&self, side: Side, name: &[u8], each: &mut dyn FnMut(&[u8]));

    /// Calls `each` with every header field.
    fn fields(&self, side: Side, each: &mut dyn FnMut(&[u8], &[u8]));

    /// Replaces all values of a header field by one, or by none.
    fn set_field(&mut self, side: Side, name: &[u8], value: Option<&[u8]>);

    /// Adds a value to a header field.
    fn add_field(&mut self, side: Side, name: &[u8], value: &[u8]);

    /// An attribute, if it has a value.
    fn attribute(&self, attribute: Attribute) -> Option<Vec<u8>>;

    /// Changes a writable attribute; an empty value takes it away.
    ///
    /// # Errors
    /// Fails with a message for the script if the value is invalid.
    fn set_attribute(&mut self, attribute: Attribute, value: &[u8]) -> Result<(), String>;

    /// An item; only the start time has two numbers, of which the second counts nanoseconds.
    fn item(&self, item: Item) -> (i64, i64);

    /// Says what becomes of the connection after the response: 0 and -1 close it.
    fn set_keep_alive(&mut self, value: i64);

    /// Calls `each` with every variable that applications of the Common Gateway Interface know.
    fn variables(&mut self, each: &mut dyn FnMut(&[u8], &[u8]));

    /// Changes such a variable for the application that answers, or takes it away.
    fn set_variable(&mut self, name: &[u8], value: Option<&[u8]>);

    /// The length of the request's body, if it is known.
    fn request_length(&self) -> Option<u64>;

    /// The request's body, once all of it is here.
    fn request_body(&self) -> Option<Vec<u8>>;

    /// Whether all of the request's body is here; if not, it will be when the script runs the next
    /// time, which asking for it brings about.
    fn collect_body(&mut self) -> bool;

    /// Replaces the request's body, all of which is here.
    fn set_request_body(&mut self, body: Vec<u8>);

    /// The response's body, if all of it is here.
    fn response_body(&self) -> Option<Vec<u8>>;

    /// The length of the response's body, if it is known.
    fn response_length(&self) -> Option<u64>;

    /// Leaves nothing of the response's body.
    fn clear_body(&mut self);

    /// Adds a piece to the response's body.
    fn add_piece(&mut self, piece: Piece);

    /// The content type by which a file would be sent, judging by its name.
    fn content_type(&self, path: &Path) -> Option<String>;

    /// Other requests that are being served; those that began before anybody asked may be missing.
    fn others(&self) -> Vec<Other>;

    /// Says something of the request to the content cache, if there is one.
    fn override_cache(&mut self, with: Override);

    /// What the content cache has for the request, or for what a script has named so.
    fn kept(&mut self, key: Option<&[u8]>) -> Option<CachedResponse>;

    /// Makes what the content cache has under a key the response; its status, if there is
    /// something.
    fn send_kept(&mut self, key: &[u8]) -> Option<u16>;

    /// Removes something from the content cache; how many responses.
    ///
    /// # Errors
    /// Fails with a message for the script if `what` is invalid.
    fn purge(&mut self, what: Purge) -> Result<u64, String>;

    /// Whole seconds since the server was started.
    fn uptime(&self) -> u64;

    /// How many clients are connected.
    fn clients(&self) -> u64;
}
