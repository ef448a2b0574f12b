//! TLS for clients: the handshake, before the protocol inside of it begins.

mod challenges;
mod counters;
mod on_demand;
mod quic;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Poll, ready};

use bytes::Bytes;
use tokamak_config::{self as config, ClientAuth, TlsVersion, UnknownName};
use tokamak_quic::Secret;
use tokamak_tls::{Credentials, Names, ServerConfig, Session, Settings};
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::rustls::Error as TlsError;
use tokio_rustls::rustls::server::Acceptor;
use tokio_rustls::server::TlsStream;

use challenges::Challenges;
pub use counters::{Failed, HandshakeCounters};
use on_demand::OnDemand;
pub use on_demand::WantName;
pub use quic::QuicTls;

/// The first byte of a client that speaks TLS: a record with its ClientHello.
const HANDSHAKE: u8 = 0x16;

/// What the TLS library says if no certificate is for a client.
const NO_CERTIFICATE: &str = "no server certificate chain resolved";

/// How much of a ClientHello is looked at. That of a client with little memory has some hundred
/// bytes; a tenth would not hold it, and ten times more would only hold the keys of browsers.
const CLIENT_HELLO: usize = 1024;

/// What event loops need for handshakes.
pub struct Tls {
    settings: Settings,
    /// For the next connections, and the names that it knows: changed when the supervisor has read
    /// other certificates.
    config: RwLock<(Arc<ServerConfig>, Arc<Names>)>,
    /// Orders certificates for further names, if the configuration has that.
    on_demand: Option<OnDemand>,
    /// When the certificates end, by their first names: seconds since 1970.
    ends: RwLock<BTreeMap<String, u64>>,
    challenges: Challenges,
    /// What handshakes of QUIC need, if there is HTTP/3.
    pub quic: Option<QuicTls>,
    /// How handshakes end.
    pub counters: HandshakeCounters,
}

/// The protocol inside of TLS that client and server have agreed on (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// What is offered, the preferred one first.
    fn offered(config: &config::Server) -> Vec<Vec<u8>> {
        let offered: &[&[u8]] =
            if config.http2.enabled { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        offered.iter().map(|name| name.to_vec()).collect()
    }

    fn of(agreed: Option<&[u8]>) -> Protocol {
        match agreed {
            Some(b"h2") => Protocol::Http2,
            // A client that names no protocol speaks HTTP/1.
            Some(_) | None => Protocol::Http1,
        }
    }
}

/// A connection whose handshake is over.
pub struct Secured {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// What the handshake has negotiated.
    pub session: Session,
    /// The protocol inside of it.
    pub protocol: Protocol,
    /// The longest fragment that the client has room for, if it says so.
    pub fragment: Option<usize>,
}

/// Why there is no connection.
pub enum NotSecured {
    /// The client speaks HTTP without TLS. It is still there.
    Plain(TcpStream),
    /// The client does not agree with the server. It has been sent the alert, and may have sent
    /// more: a connection with unread bytes would be reset, and the alert lost.
    Refused(TcpStream, io::Error),
    /// The connection is closed, with the reason if the client has done something wrong.
    Closed(Option<io::Error>),
}

impl Tls {
    /// With these settings and credentials. `want` has certificates ordered for further names, if
    /// the settings allow that. `secret` is what the fronts of the server share, if there is
    /// HTTP/3.
    ///
    /// # Errors
    /// Fails with what is wrong with the credentials.
    pub fn new(
        server: &Arc<config::Server>,
        credentials: &Credentials,
        want: Option<WantName>,
        secret: Option<Arc<Secret>>,
    ) -> Result<Tls, String> {
        let config = &server.tls;
        let settings = Settings {
            minimum: match config.minimum {
                TlsVersion::V12 => tokamak_tls::Version::V12,
                TlsVersion::V13 => tokamak_tls::Version::V13,
            },
            client_auth: match config.client_auth {
                ClientAuth::None => tokamak_tls::ClientAuth::None,
                ClientAuth::Optional => tokamak_tls::ClientAuth::Optional,
                ClientAuth::Required => tokamak_tls::ClientAuth::Required,
            },
            refuses_unknown: config.unknown_name == UnknownName::Refuse,
            protocols: Protocol::offered(server),
        };
        let config = RwLock::new(tokamak_tls::server_config(&settings, credentials)?);
        let ends = RwLock::new(credentials.ends());
        let challenges = Challenges::new(&credentials.challenges)?;
        let want = want.filter(|_| server.acme.on_demand.is_some());
        let on_demand = want.map(|want| OnDemand::new(server.clone(), want)).transpose()?;
        let quic = secret.map(|secret| QuicTls::new(&server.http3, &settings, secret, credentials));
        let quic = quic.transpose()?;
        let counters = HandshakeCounters::default();
        Ok(Tls { settings, config, on_demand, ends, challenges, quic, counters })
    }

    /// Uses these credentials for the next connections. On an error the old ones stay in use.
    ///
    /// # Errors
    /// As [`Tls::new`].
    pub fn renew(&self, credentials: &Credentials) -> Result<(), String> {
        let config = tokamak_tls::server_config(&self.settings, credentials)?;
        if let Some(quic) = &self.quic {
            quic.renew(credentials)?;
        }
        self.challenges.renew(&credentials.challenges)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        *self.ends.write().unwrap_or_else(PoisonError::into_inner) = credentials.ends();
        if let Some(on_demand) = &self.on_demand {
            on_demand.look_again();
        }
        Ok(())
    }

    /// No certificate is ordered for this name, or none comes soon: handshakes for it are refused.
    pub fn decline(&self, name: &str) {
        if let Some(on_demand) = &self.on_demand {
            on_demand.decline(name);
        }
    }

    /// When the certificates end, by their first names: seconds since 1970.
    pub fn ends(&self) -> BTreeMap<String, u64> {
        self.ends.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The text that an authority is to find at this path (ACME), if any.
    #[inline]
    pub fn challenge_answer(&self, path: &str) -> Option<Bytes> {
        self.challenges.answer(path)
    }

    fn config(&self) -> Arc<ServerConfig> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn knows(&self, name: &str) -> bool {
        self.config.read().unwrap_or_else(PoisonError::into_inner).1.knows(name)
    }

    /// What to use for this handshake. It may have to wait for a certificate.
    async fn config_for(&self, name: Option<&str>) -> Arc<ServerConfig> {
        if let Some(on_demand) = &self.on_demand
            && let Some(name) = name
            && !self.knows(name)
            && on_demand.is_for(name)
            && !on_demand.wait(name, |name| self.knows(name)).await
        {
            return on_demand.refusing.clone();
        }
        self.config()
    }

    /// Makes a connection with TLS of one that was accepted. `turn` has one permit, and all
    /// connections of an event loop share it: the arithmetic of a handshake takes as long as some
    /// requests, so between two of them the loop does other work.
    ///
    /// # Errors
    /// Fails if the client does not agree, or has gone.
    pub async fn handshake(
        &self,
        stream: TcpStream,
        turn: &Semaphore,
    ) -> Result<Secured, NotSecured> {
        let mut end = self.counters.begin();
        // A connection without a byte so far takes no memory for TLS.
        let fragment = match peek(&stream).await {
            Ok((Some(HANDSHAKE), fragment)) => fragment,
            Ok((Some(_), _)) => {
                end.is(Failed::Plain);
                return Err(NotSecured::Plain(stream));
            }
            Ok((None, _)) | Err(_) => return Err(end.failed(Failed::Closed, None)),
        };
        let closed = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
                (Failed::Refused, Some(error))
            }
            _ => (Failed::Closed, None),
        };
        let handshake = LazyConfigAcceptor::new(Acceptor::default(), stream).await;
        let handshake = handshake.map_err(|error| {
            let (why, error) = closed(error);
            end.failed(why, error)
        })?;
        let challenge = self.challenges.config(&handshake.client_hello());
        let is_challenge = challenge.is_some();
        let asked = handshake.client_hello().server_name().map(str::to_owned);
        let config = match challenge {
            Some(config) => config,
            None => self.config_for(handshake.client_hello().server_name()).await,
        };
        let mut answer = handshake.into_stream(config).into_fallible();
        let begun = {
            // Only closed when the loop is gone.
            let _turn = turn.acquire().await;
            let begun = poll_fn(|cx| Poll::Ready(Pin::new(&mut answer).poll(cx))).await;
            tokio::task::yield_now().await;
            begun
        };
        let stream = match begun {
            Poll::Ready(result) => result,
            Poll::Pending => answer.await,
        };
        let stream = match stream {
            Ok(stream) => stream,
            Err((error, stream)) => match closed(named(error, asked.as_deref())) {
                (why, Some(error)) => {
                    end.is(why);
                    return Err(NotSecured::Refused(stream, error));
                }
                (why, None) => return Err(end.failed(why, None)),
            },
        };
        if is_challenge {
            // The authority has seen the certificate, and says nothing more (RFC 8737, 3).
            return Err(end.failed(Failed::Closed, None));
        }
        let connection = stream.get_ref().1;
        let asks_client = self.settings.client_auth != tokamak_tls::ClientAuth::None;
        let session = Session::of(connection, asks_client);
        let protocol = Protocol::of(connection.alpn_protocol());
        end.succeeded(&session);
        Ok(Secured { stream, session, protocol, fragment })
    }
}

/// The first byte of a client, and the longest fragment that it has room for, if it says so.
/// No byte: the client sends nothing.
async fn peek(stream: &TcpStream) -> io::Result<(Option<u8>, Option<usize>)> {
    poll_fn(|cx| {
        let mut room = [0; CLIENT_HELLO];
        let mut come = ReadBuf::new(&mut room);
        ready!(stream.poll_peek(cx, &mut come))?;
        let come = come.filled();
        Poll::Ready(Ok((come.first().copied(), tokamak_tls::fragment_length(come))))
    })
    .await
}

/// Names the host for which there is no certificate, since the library does not.
fn named(error: io::Error, asked: Option<&str>) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    let Some(TlsError::General(text)) = inner else { return error };
    if text != NO_CERTIFICATE {
        return error;
    }
    let problem = match asked {
        Some(name) => format!("there is no certificate for {name}"),
        None => "the client names no host, and there is no certificate for that".to_owned(),
    };
    io::Error::new(error.kind(), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_host_without_a_certificate() {
        let of_library = |text: &str| {
            io::Error::new(io::ErrorKind::InvalidData, TlsError::General(text.to_owned()))
        };
        let message = |text, asked| named(of_library(text), asked).to_string();
        assert_eq!(message(NO_CERTIFICATE, Some("a.test")), "there is no certificate for a.test");
        assert!(message(NO_CERTIFICATE, None).contains("names no host"));
        assert_eq!(message("other", Some("a.test")), "unexpected error: other");
    }
}
