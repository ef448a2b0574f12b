//! An HTTP service that does as the first word of a path says: `/echo/x` answers `x`, all others
//! fail in a way of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// What it can do; the first two are answers.
pub const MOODS: &[&str] = &["echo", "slow", "late", "stall", "reset", "hangup", "garbage", "half"];

/// Later than clients wait who have a time limit of 200 ms.
const LATE: Duration = Duration::from_millis(300);

/// Starts the service; its port. It goes with the test program.
pub fn start() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut client = BufReader::new(client);
                while !is_to_be_reset(client.get_ref()) && answer(&mut client).is_some() {}
            });
        }
    });
    port
}

/// To close a connection whose bytes nobody has read is to reset it.
fn is_to_be_reset(client: &TcpStream) -> bool {
    let mut begin = [0; 10];
    client.peek(&mut begin).is_ok_and(|length| begin[..length].starts_with(b"GET /reset"))
}

/// One request of a connection; none if there will be no more.
fn answer(client: &mut BufReader<TcpStream>) -> Option<()> {
    let mut request = String::new();
    client.read_line(&mut request).ok()?;
    let path = request.split(' ').nth(1)?.trim_start_matches('/');
    let (mood, text) = path.split_once('/')?;
    let mut is_last = request.contains("HTTP/1.0");
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        client.read_line(&mut line).ok().filter(|length| *length > 0)?;
        is_last |= line.eq_ignore_ascii_case("connection: close\r\n");
    }
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
    let mut say = |bytes: &[u8]| client.get_mut().write_all(bytes).ok();
    let said = match mood {
        "echo" => say(format!("{head}{text}").as_bytes()),
        "late" => {
            sleep(LATE);
            say(format!("{head}{text}").as_bytes())
        }
        "slow" => {
            for piece in format!("{head}{text}").as_bytes().chunks(16) {
                sleep(Duration::from_millis(1));
                say(piece)?;
            }
            Some(())
        }
        "garbage" => {
            say(&text.bytes().flat_map(|byte| [byte ^ 0x85, 0, b'\n', byte]).collect::<Vec<_>>())?;
            None
        }
        "half" => {
            say(format!("{head}{}", &text[..text.len() / 2]).as_bytes())?;
            None
        }
        "stall" => {
            // Until the client has enough.
            let _ = client.read(&mut [0]);
            None
        }
        _ => None,
    };
    said.filter(|()| !is_last)
}
