//! Services that answer when they are let to: what waits for one after another would wait for ever.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// Where all wait until it is opened.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    opened: Condvar,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    waiting: usize,
}

impl Gate {
    /// From now on nobody passes.
    pub fn close(&self) {
        self.state.lock().unwrap().is_closed = true;
    }

    /// Lets all pass, those who wait and those who will come.
    pub fn open(&self) {
        self.state.lock().unwrap().is_closed = false;
        self.opened.notify_all();
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().unwrap().waiting
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        let mut state = self.opened.wait_while(state, |state| state.is_closed).unwrap();
        state.waiting -= 1;
    }
}

/// A service with a gate before its answers.
pub struct Gated {
    /// Before the answers.
    pub gate: Arc<Gate>,
    /// The TCP port on 127.0.0.1.
    pub port: u16,
}

impl Gated {
    /// An HTTP server that answers with the path that it was asked for, without its slash, or with
    /// the body that it was sent.
    pub fn http() -> Gated {
        Gated::start(|mut client, gate| while answer_http(&mut client, gate).is_some() {})
    }

    /// A mail server that names a letter by its subject when it has got it.
    pub fn smtp() -> Gated {
        Gated::start(|mut client, gate| {
            answer_smtp(&mut client, gate);
        })
    }

    fn start(serve: fn(BufReader<TcpStream>, &Gate)) -> Gated {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Arc::new(Gate::default());
        let mine = gate.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let gate = mine.clone();
                std::thread::spawn(move || serve(BufReader::new(client), &gate));
            }
        });
        Gated { gate, port }
    }
}

fn line(client: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    client.read_line(&mut line).ok().filter(|length| *length > 0)?;
    Some(line.trim_end().to_owned())
}

/// One request of a connection; none if there will be no more.
fn answer_http(client: &mut BufReader<TcpStream>, gate: &Gate) -> Option<()> {
    let request = line(client)?;
    let path = request.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    let (mut length, mut kind) = (0, "text/plain".to_owned());
    let mut is_last = request.ends_with("HTTP/1.0");
    loop {
        let line = line(client)?.to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(("content-type", value)) => kind = value.to_owned(),
            Some(("connection", value)) => is_last = value == "close",
            _ if line.is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).ok()?;
    let body = if body.is_empty() { path.into_bytes() } else { body };
    gate.pass();
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n");
    client.get_mut().write_all(format!("{head}\r\n").as_bytes()).ok()?;
    client.get_mut().write_all(&body).ok()?;
    (!is_last).then_some(())
}

/// One session of SMTP.
fn answer_smtp(client: &mut BufReader<TcpStream>, gate: &Gate) -> Option<()> {
    let say = |client: &mut BufReader<TcpStream>, text: &str| {
        client.get_mut().write_all(format!("{text}\r\n").as_bytes()).ok()
    };
    say(client, "220 mail.example.org")?;
    loop {
        let command = line(client)?;
        match command.split(' ').next()? {
            "DATA" => {
                say(client, "354 go on")?;
                let subject = read_letter(client)?;
                gate.pass();
                say(client, &format!("250 2.0.0 Ok: queued as {subject}"))?;
            }
            "QUIT" => return say(client, "221 bye"),
            _ => say(client, "250 yes")?,
        }
    }
}

/// What a letter is about.
fn read_letter(client: &mut BufReader<TcpStream>) -> Option<String> {
    let mut subject = None;
    loop {
        let line = line(client)?;
        if line == "." {
            return subject;
        }
        if let Some(text) = line.strip_prefix("Subject: ") {
            subject = Some(text.to_owned());
        }
    }
}
