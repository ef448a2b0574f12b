//! How a site's workers publish updates in its hub, which the front has.
//!
//! The workers share one end of a [`Channel`], of which the front has the other one. An update is
//! one message, and with it comes one end of a channel for the answer alone, since answers on the
//! shared one could come to any worker.
//!
//! ```text
//! update = field…     field = name  zero  length (4, little endian)  value
//! answer = 0  id      or 1  reason
//! ```

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::channel::{Channel, MAX_MESSAGE, Received, Watch, poll};

/// How long a worker waits for the hub: longer than the hub may wait for a Redis server. With a
/// tenth, a busy one would seem to be gone, and with ten times more a worker would wait for one
/// that is.
const PATIENCE: Duration = Duration::from_secs(15);

const DONE: u8 = 0;
const REFUSED: u8 = 1;

/// Publishes an update. Returns its id.
///
/// # Errors
/// Fails with the reason why it was not published, or is not known to be.
pub fn publish(line: &Channel, update: &[u8]) -> Result<Vec<u8>, String> {
    if update.len() > MAX_MESSAGE {
        return Err(format!("the update has more than {MAX_MESSAGE} bytes"));
    }
    let name = |error: io::Error| format!("the hub cannot be asked: {error}");
    let until = Instant::now() + PATIENCE;
    let left = || until.saturating_duration_since(Instant::now());
    let (ours, theirs) = Channel::pair().map_err(name)?;
    loop {
        match line.send(update, &[theirs.as_fd()]) {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !left().is_zero() => {
                poll(&mut [Watch::read_write(line.as_fd(), true)], Some(left())).map_err(name)?;
            }
            Err(error) => return Err(name(error)),
        }
    }
    drop(theirs);
    match ours.receive_within(Some(left())).map_err(name)? {
        Received::Message(answer, _) => match answer.split_first() {
            Some((&DONE, id)) => Ok(id.to_vec()),
            Some((_, reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
            None => Err("the answer of the hub is empty".to_owned()),
        },
        Received::Nothing => Err("the hub does not answer".to_owned()),
        Received::Closed => Err("the hub has gone without an answer".to_owned()),
    }
}

/// Takes the next message at the front's end of the line; never waits. Nothing comes of a message
/// without a channel for its answer: no worker of ours sends one.
pub fn next(line: &Channel) -> Option<(Vec<u8>, Answer)> {
    let Ok(Received::Message(update, fds)) = line.receive() else { return None };
    let channel = Channel::from_fd(fds.into_iter().next()?).ok()?;
    Some((update, Answer(channel)))
}

/// Answers one update. Dropped without an answer, it says that the hub has gone.
#[derive(Debug)]
pub struct Answer(Channel);

impl Answer {
    /// The update was published under this id.
    pub fn done(self, id: &str) {
        self.send(DONE, id);
    }

    /// It was not.
    pub fn refused(self, reason: &str) {
        self.send(REFUSED, reason);
    }

    fn send(self, kind: u8, text: &str) {
        // A worker that does not wait any more has said so to its script.
        let _ = self.0.send(&[&[kind], text.as_bytes()].concat(), &[]);
    }
}

/// Adds a field to an update.
///
/// # Panics
/// If the value has 4 GiB.
pub fn put(update: &mut Vec<u8>, name: &str, value: &str) {
    let length = u32::try_from(value.len()).expect("a value is not so long");
    update.extend_from_slice(name.as_bytes());
    update.push(0);
    update.extend_from_slice(&length.to_le_bytes());
    update.extend_from_slice(value.as_bytes());
}

/// The fields of an update: names and values, if it is well formed.
pub fn fields(mut update: &[u8]) -> Option<Vec<(&str, &str)>> {
    let mut fields = Vec::new();
    while !update.is_empty() {
        let end = update.iter().position(|byte| *byte == 0)?;
        let (name, rest) = (&update[..end], &update[end + 1..]);
        let (length, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        fields.push((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?));
        update = rest;
    }
    Some(fields)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_update_is_answered() {
        let (workers, front) = Channel::pair().unwrap();
        let answered = thread::spawn(move || {
            let answer = || loop {
                poll(&mut [Watch::read(front.as_fd())], None).unwrap();
                if let Some(asked) = next(&front) {
                    return asked;
                }
            };
            let (update, first) = answer();
            first.done("urn:1");
            answer().1.refused("no topic");
            drop(answer().1);
            update
        });
        assert_eq!(publish(&workers, b"a"), Ok(b"urn:1".to_vec()));
        assert_eq!(publish(&workers, b"b").unwrap_err(), "no topic");
        assert_eq!(publish(&workers, b"c").unwrap_err(), "the hub has gone without an answer");
        assert_eq!(answered.join().unwrap(), b"a");
        assert!(publish(&workers, b"d").unwrap_err().starts_with("the hub cannot be asked: "));
        let long = publish(&workers, &[b'x'; MAX_MESSAGE + 1]).unwrap_err();
        assert_eq!(long, "the update has more than 131072 bytes");
    }

    #[test]
    fn what_nobody_waits_for_is_dropped() {
        let (workers, front) = Channel::pair().unwrap();
        assert!(next(&front).is_none());
        workers.send(b"a", &[]).unwrap();
        let (ours, theirs) = Channel::pair().unwrap();
        workers.send(b"b", &[theirs.as_fd()]).unwrap();
        assert!(next(&front).is_none());
        let (update, answer) = next(&front).expect("the next one is there");
        assert_eq!(update, b"b");
        answer.done("1");
        assert!(matches!(ours.receive(), Ok(Received::Message(_, _))));
        drop(workers);
        assert!(next(&front).is_none());
    }

    #[test]
    fn fields_are_whole_or_none() {
        let mut update = Vec::new();
        put(&mut update, "topic", "/a");
        put(&mut update, "data", "");
        assert_eq!(update, b"topic\0\x02\0\0\0/adata\0\0\0\0\0");
        assert_eq!(fields(&update), Some(vec![("topic", "/a"), ("data", "")]));
        assert_eq!(fields(b""), Some(Vec::new()));
        for length in (1..update.len()).filter(|length| *length != 12) {
            assert_eq!(fields(&update[..length]), None, "{length}");
        }
        assert_eq!(fields(b"a\0\xff\xff\xff\xffb"), None);
        assert_eq!(fields(b"a\0\x01\0\0\0\xff"), None, "it is not UTF-8");
    }
}
