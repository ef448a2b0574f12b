//! The FastCGI wire format. Without this crate each side of a connection would have to know which
//! byte of a record means what, and each would have its own opinion of records that lie.
//!
//! Bytes in, bytes out: no sockets, no HTTP. Section numbers are those of the FastCGI
//! specification, version 1.0.
//!
//! - [`record`]: the frame that everything travels in (§3.3).
//! - [`Decoder`]: bytes to the parts of records, whatever pieces they come in.
//! - [`Messages`]: the parts to what they mean, for both sides.
//! - [`params`]: name-value pairs (§3.4), also those that are split over records.
//! - [`encode`]: messages to bytes, in a buffer of the caller's.
//!
//! What each side may say when is not judged here: [`Messages`] gives every message that is well
//! formed, and the side that reads knows which it expects.

mod decode;
pub mod encode;
mod error;
mod message;
pub mod params;
pub mod record;
mod values;

pub use decode::{Decoder, RecordEvent};
pub use error::Error;
pub use message::{Message, Messages, ProtocolStatus, Role, Stream};
pub use record::{Header, Kind};
pub use values::{Values, ValuesQuery};
