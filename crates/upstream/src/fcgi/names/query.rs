//! One question to name servers (RFC 1035): by UDP, and by TCP if the answer is too long for that. The servers resolve for us; what
//! they answer is checked for being an answer to this question and otherwise believed.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long one server may take for one answer. Chosen arbitrarily; half of what the C library allows.
const LIMIT: Duration = Duration::from_millis(2500);

/// How often each server is asked. As the C library does.
const ROUNDS: usize = 2;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Hosts and ports of a service.
    Srv,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
    Service { priority: u16, weight: u16, port: u16, target: String },
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The text is no name.
    NoName,
    /// The server says so.
    Refused(RCODE),
    /// What came was no DNS message.
    Malformed,
    /// Nothing came in time.
    Silent,
    /// The server cannot be reached.
    Unreachable(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoName => f.write_str("this is no name"),
            Failure::Refused(code) => write!(f, "the name server answered {code:?}"),
            Failure::Malformed => f.write_str("the name server's answer cannot be understood"),
            Failure::Silent => f.write_str("the name server does not answer"),
            Failure::Unreachable(error) => write!(f, "the name server cannot be reached: {error}"),
        }
    }
}

/// The records of a name with their time to live, from the first server that has an answer. A name that does not exist has none.
///
/// # Errors
/// No server answers; what is wrong with the last one.
pub(super) async fn ask(
    servers: &[SocketAddr],
    name: &str,
    kind: Kind,
) -> Result<Vec<(Record, Duration)>, Failure> {
    let mut failure = Failure::Silent;
    for server in (0..ROUNDS).flat_map(|_| servers) {
        match timeout(LIMIT, ask_one(*server, name, kind)).await {
            Ok(Ok(records)) => return Ok(records),
            Ok(Err(Failure::NoName)) => return Err(Failure::NoName),
            Ok(Err(wrong)) => failure = wrong,
            Err(_) => failure = Failure::Silent,
        }
    }
    Err(failure)
}

async fn ask_one(server: SocketAddr, name: &str, kind: Kind) -> Result<Vec<(Record, Duration)>, Failure> {
    // The hasher's keys are random, so nobody can guess the number and answer in the server's place.
    let id = RandomState::new().build_hasher().finish() as u16;
    let question = question(id, name, kind)?;
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await.map_err(Failure::Unreachable)?;
    socket.connect(server).await.map_err(Failure::Unreachable)?;
    socket.send(&question).await.map_err(Failure::Unreachable)?;
    let mut bytes = vec![0; 4096];
    loop {
        let length = socket.recv(&mut bytes).await.map_err(Failure::Unreachable)?;
        match understand(&bytes[..length], id, name, kind) {
            Some(Answer::Whole(result)) => return result,
            Some(Answer::Cut) => break,
            // Something else, perhaps the late answer to an earlier question.
            None => {}
        }
    }
    let bytes = ask_by_tcp(server, &question).await.map_err(Failure::Unreachable)?;
    match understand(&bytes, id, name, kind) {
        Some(Answer::Whole(result)) => result,
        Some(Answer::Cut) | None => Err(Failure::Malformed),
    }
}

async fn ask_by_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).unwrap_or(u16::MAX).to_be_bytes();
    stream.write_all(&[&length, question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn question(id: u16, name: &str, kind: Kind) -> Result<Vec<u8>, Failure> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(|_| Failure::NoName)?;
    packet.questions.push(Question::new(name, kind.number(), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(|_| Failure::NoName)
}

enum Answer {
    Whole(Result<Vec<(Record, Duration)>, Failure>),
    /// It did not fit.
    Cut,
}

/// The answer, if the bytes are one to this question.
fn understand(bytes: &[u8], id: u16, name: &str, kind: Kind) -> Option<Answer> {
    let packet = Packet::parse(bytes).ok()?;
    let is_mine = packet.id() == id
        && packet.has_flags(PacketFlag::RESPONSE)
        && packet.questions.first().is_some_and(|asked| {
            asked.qtype == kind.number() && asked.qname.to_string().eq_ignore_ascii_case(name)
        });
    if !is_mine {
        return None;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Some(Answer::Cut);
    }
    Some(Answer::Whole(match packet.rcode() {
        RCODE::NoError | RCODE::NameError => {
            let record = |one: &simple_dns::ResourceRecord<'_>| {
                let record = match &one.rdata {
                    RData::A(a) if kind == Kind::A => Record::V4(a.address.into()),
                    RData::AAAA(aaaa) if kind == Kind::Aaaa => Record::V6(aaaa.address.into()),
                    RData::SRV(srv) if kind == Kind::Srv => Record::Service {
                        priority: srv.priority,
                        weight: srv.weight,
                        port: srv.port,
                        target: srv.target.to_string(),
                    },
                    // Such as the CNAME that led to these.
                    _ => return None,
                };
                Some((record, Duration::from_secs(one.ttl.into())))
            };
            Ok(packet.answers.iter().filter_map(record).collect())
        }
        other => Err(Failure::Refused(other)),
    }))
}

impl Kind {
    fn number(self) -> QTYPE {
        QTYPE::TYPE(match self {
            Kind::A => TYPE::A,
            Kind::Aaaa => TYPE::AAAA,
            Kind::Srv => TYPE::SRV,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_answer_to_this_question_is_taken() {
        let asked = question(7, "app.example", Kind::A).unwrap();
        assert!(understand(&asked, 7, "app.example", Kind::A).is_none(), "a question is no answer");
        let mut answer = asked;
        answer[2] |= 0x80;
        let takes = |answer: &[u8], id, name, kind| matches!(understand(answer, id, name, kind), Some(Answer::Whole(Ok(records))) if records.is_empty());
        assert!(takes(&answer, 7, "APP.example", Kind::A));
        assert!(!takes(&answer, 8, "app.example", Kind::A));
        assert!(!takes(&answer, 7, "app.example", Kind::Aaaa));
        assert!(!takes(&answer, 7, "other.example", Kind::A));
        answer[3] |= 2; // SERVFAIL
        assert!(matches!(understand(&answer, 7, "app.example", Kind::A), Some(Answer::Whole(Err(_)))));
        answer[2] |= 2; // TC
        assert!(matches!(understand(&answer, 7, "app.example", Kind::A), Some(Answer::Cut)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_understood_or_not(start in 0..3_usize, rest in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = question(7, "app.example", Kind::Srv).unwrap();
            bytes[2] |= 0x80;
            bytes[7] = 3; // answers that the rest is to be
            bytes.truncate([0, 12, bytes.len()][start]);
            bytes.extend(rest);
            let _ = understand(&bytes, 7, "app.example", Kind::Srv);
        }
    }
}
