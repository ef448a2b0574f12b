//! What the system knows of a worker, from `/proc`: the process itself sees it badly, or would
//! change it by looking.

use std::net::{Ipv4Addr, Ipv6Addr};

use tokamak_sys::proc::{self, Task};

use crate::listing::Listing;

/// Adds descriptors, directory, umask and signals to a listing.
pub fn add(listing: &mut Listing, pid: u32) {
    let root = listing.add_root("descriptors");
    let open = proc::descriptors(pid).filter_map(|(number, target)| Some((number, target?)));
    let mut open: Vec<(u32, String)> = open.collect();
    open.sort_unstable();
    for (number, target) in open {
        let target = peer(pid, &target).unwrap_or(target);
        // One byte each, so that more of them are growth.
        listing.add(root, &format!("{number}: {target}"), 1, "");
    }
    let root = listing.add_root("process");
    let directory = proc::directory(pid).unwrap_or_default();
    listing.add(root, "cwd", 0, &directory.to_string_lossy());
    let status = proc::values(Task::Process(pid), "status").unwrap_or_default();
    for (name, title) in [
        ("Umask:", "umask"),
        ("SigBlk:", "blocked signals"),
        ("SigCgt:", "signal handlers"),
        ("SigIgn:", "ignored signals"),
    ] {
        listing.add(root, title, 0, proc::value(&status, name).unwrap_or(""));
    }
    listing.sum_up();
}

/// `socket:[1234]` as the address of its peer.
fn peer(pid: u32, target: &str) -> Option<String> {
    let inode = target.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()?;
    if let Some(socket) = proc::inet_sockets(pid).into_iter().find(|it| it.inode == inode) {
        return Some(format!("connection to {}", address(&socket.remote)?));
    }
    let path = proc::unix_sockets(pid).into_iter().find(|(of, _)| *of == inode);
    Some(path.map_or("socket".to_owned(), |(_, path)| format!("connection to {path}")))
}

/// `0100007F:1F90`: the address in words of the machine's order.
fn address(text: &str) -> Option<String> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for word in host.as_bytes().chunks(8) {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    match bytes.len() {
        4 => Some(format!("{}:{port}", Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[..]).ok()?))),
        _ => Some(format!("[{}]:{port}", Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?))),
    }
}

/// CPU nanoseconds that a process has used.
pub fn cpu(pid: u32) -> u64 {
    proc::scheduled(Task::Process(pid)).unwrap_or_default().ran
}

/// Bytes that a process would not share with a second one like it: pages that it has written to.
/// Those of an image that it has not count for none of the two.
pub fn private(pid: u32) -> u64 {
    let text = proc::values(Task::Process(pid), "smaps").unwrap_or_default();
    let (mut sum, mut private) = (0, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(Ok(kilobytes))) = (words.next(), words.next().map(str::parse::<u64>))
        else {
            continue;
        };
        match name {
            "Private_Clean:" => private = kilobytes,
            "Private_Dirty:" => private += kilobytes,
            // Of the same mapping, a few lines below.
            "Anonymous:" => sum += private.min(kilobytes),
            _ => {}
        }
    }
    sum * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        if cfg!(target_endian = "little") {
            assert_eq!(address("0100007F:0CEA").as_deref(), Some("127.0.0.1:3306"));
            assert_eq!(
                address("00000000000000000000000001000000:1F90").as_deref(),
                Some("[::1]:8080")
            );
        }
        assert_eq!(address("nonsense"), None);
    }
}
