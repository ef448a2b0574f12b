//! A subscriber over HTTP/1.1, and the tokens of publishers and subscribers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use flate2::write::GzDecoder;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::harness::{Head, Request, Server, form, get};

/// The key of publishers.
pub const PUBLISHER: &str = "publisher-0123456789-0123456789-01";

/// The key of subscribers.
pub const SUBSCRIBER: &str = "subscriber-0123456789-0123456789-0";

/// The path of the hub.
pub const HUB: &str = "/.well-known/mercure";

/// A token with these claims.
pub fn signed(key: &str, claims: &Value) -> String {
    let key = EncodingKey::from_secret(key.as_bytes()).expect("a key");
    encode(&Header::default(), claims, &key).expect("a token")
}

/// The value of `Authorization` for one that may publish for these topics.
pub fn publisher(topics: &[&str]) -> String {
    format!("Bearer {}", signed(PUBLISHER, &json!({"mercure": {"publish": topics}})))
}

/// A token of one that may have private updates of these topics.
pub fn subscriber(topics: &[&str]) -> String {
    signed(SUBSCRIBER, &json!({"mercure": {"subscribe": topics}}))
}

/// A request to publish a form.
pub fn publication(fields: &str) -> Request {
    form(HUB, fields).header("Authorization", &publisher(&["*"]))
}

/// Publishes a form; the name of the update.
pub fn publish(server: &Server, fields: &str) -> String {
    server.send(&publication(fields)).expect(200).text()
}

/// A request to subscribe with this query.
pub fn subscription(query: &str) -> Request {
    get(&format!("{HUB}?{query}"))
}

/// How long a subscriber waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A subscriber whose stream has begun.
pub struct Subscriber {
    stream: BufReader<TcpStream>,
    /// The value of `Last-Event-ID` in the response.
    pub before: Option<String>,
    text: String,
    is_over: bool,
    /// Set if the stream comes in gzip.
    gzip: Option<GzDecoder<Vec<u8>>>,
}

impl Subscriber {
    /// Subscribes, and waits for the beginning of the stream.
    pub fn new(server: &Server, request: &Request) -> Subscriber {
        let stream = TcpStream::connect(server.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let stream = BufReader::with_capacity(1 << 16, stream);
        let (text, is_over, gzip) = (String::new(), false, None);
        let mut subscriber = Subscriber { stream, before: None, text, is_over, gzip };
        let head = subscriber.ask(request);
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        assert_eq!(head.header("transfer-encoding"), Some("chunked"));
        if head.header("content-encoding") == Some("gzip") {
            subscriber.gzip = Some(GzDecoder::new(Vec::new()));
        }
        subscriber.before = head.header("last-event-id").map(str::to_owned);
        assert_eq!(subscriber.next().as_deref(), Some(":"), "it begins with a comment");
        subscriber
    }

    /// Sends a request, and reads the head of its response.
    pub fn ask(&mut self, request: &Request) -> Head {
        self.stream.get_mut().write_all(&request.bytes()).expect("the request is sent");
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head.push_str(&self.line());
            head.push_str("\r\n");
        }
        Head::parse(head.as_bytes()).expect("a head")
    }

    /// The next event or comment, without its empty line; none: the stream has ended as it should.
    pub fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let event = event.to_owned();
                self.text = rest.to_owned();
                return Some(event);
            }
            if self.is_over {
                assert_eq!(self.text, "", "the stream ends within an event");
                return None;
            }
            let size = usize::from_str_radix(&self.line(), 16).expect("the size of a chunk");
            let mut bytes = vec![0; size];
            self.stream.read_exact(&mut bytes).expect("the rest of a chunk");
            assert_eq!(self.line(), "");
            self.is_over = size == 0;
            if let Some(gzip) = &mut self.gzip {
                gzip.write_all(&bytes).and_then(|()| gzip.flush()).expect("gzip");
                if self.is_over {
                    gzip.try_finish().expect("the end of the coding, and its sum");
                }
                bytes = std::mem::take(gzip.get_mut());
            }
            self.text.push_str(std::str::from_utf8(&bytes).expect("text"));
        }
    }

    /// Whether the stream comes in gzip.
    pub fn is_packed(&self) -> bool {
        self.gzip.is_some()
    }

    /// The next event, which has this data; its other fields.
    #[track_caller]
    pub fn gets(&mut self, data: &str) -> Vec<String> {
        let event = self.next().expect("an event");
        let (own, others): (Vec<_>, Vec<_>) =
            event.lines().map(str::to_owned).partition(|line| line.starts_with("data:"));
        let own: Vec<_> = own.iter().map(|line| &line["data: ".len()..]).collect();
        assert!(own.join("\n") == data, "{event:.200}");
        others
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("closed within {line:?}")).to_owned()
    }
}
