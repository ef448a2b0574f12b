//! The QUIC library as this server uses it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Endpoint, EndpointConfig, IdleTimeout, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};

use crate::id::{Ids, Secret};
use crate::socket::RoutedSocket;

/// Streams of one direction that a client may have open: three belong to HTTP/3, and some clients
/// open one of an unknown kind to see whether it does harm (RFC 9114 section 6.2.3).
const ONE_WAY_STREAMS: u32 = 8;

/// First packets that wait until the server looks at them, and their bytes together. Handshakes
/// that have begun do not count. Ten times less would drop some of a burst of visitors; ten times
/// more would hold that much more for those who forge addresses.
const INCOMING: usize = 1024;
const INCOMING_BYTES: u64 = 4 * 1024 * 1024;

/// How often a silent client is asked whether it is still there, so that a response which takes
/// long is not given up by either side. Half of what browsers wait.
pub const ASK_EVERY: Duration = Duration::from_secs(15);

/// What a client may do on one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Streams of both directions that it may have open.
    pub streams: usize,
    /// Bytes of one stream that may come before they are read.
    pub window: usize,
    /// The same for all streams together.
    pub connection_window: usize,
    /// Bytes that may be under way to it without an acknowledgement.
    pub send_window: usize,
    /// How long it may be silent, though it is asked every [`ASK_EVERY`].
    pub silence: Duration,
}

/// The endpoint of an event loop on a socket. It must be made on the thread of the loop.
///
/// # Errors
/// Fails if the address of the socket cannot be read.
pub fn endpoint(socket: Arc<RoutedSocket>, config: ServerConfig) -> io::Result<Endpoint> {
    let (own, exchange) = socket.place();
    let secret = exchange.secret().clone();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &derived(&secret, b"reset")?);
    let mut settings = EndpointConfig::new(Arc::new(key));
    settings.cid_generator(move || Box::new(Ids::new(secret.clone(), own)));
    Endpoint::new_with_abstract_socket(settings, Some(config), socket, Arc::new(TokioRuntime))
}

/// The settings for new connections. `tls` offers the protocols, and TLS 1.3.
///
/// # Errors
/// Fails if `tls` lacks the cipher suite that each client of QUIC has.
pub fn server_config(
    secret: &Secret,
    tls: QuicServerConfig,
    limits: &Limits,
) -> io::Result<ServerConfig> {
    let Limits { streams, window, connection_window, send_window, silence } = *limits;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(number(streams))
        .max_concurrent_uni_streams(ONE_WAY_STREAMS.into())
        .stream_receive_window(number(window))
        .receive_window(number(connection_window))
        .send_window(send_window as u64)
        .max_idle_timeout(IdleTimeout::try_from(silence).ok())
        .keep_alive_interval(Some(ASK_EVERY))
        // Nothing here uses datagrams.
        .datagram_receive_buffer_size(None);
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    let token = hkdf::Salt::new(hkdf::HKDF_SHA256, &derived(secret, b"token")?).extract(&[]);
    config
        .transport_config(Arc::new(transport))
        .token_key(Arc::new(token))
        .max_incoming(INCOMING)
        .incoming_buffer_size_total(INCOMING_BYTES);
    Ok(config)
}

/// A key for one purpose.
fn derived(secret: &Secret, purpose: &[u8]) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    let pseudorandom = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret.bytes());
    let purpose = [purpose];
    let expanded = pseudorandom.expand(&purpose, hkdf::HKDF_SHA256);
    let filled = expanded.and_then(|expanded| expanded.fill(&mut key));
    filled.map_err(|_| io::Error::other("a key cannot be derived"))?;
    Ok(key)
}

fn number(value: usize) -> VarInt {
    VarInt::try_from(value as u64).unwrap_or(VarInt::MAX)
}
