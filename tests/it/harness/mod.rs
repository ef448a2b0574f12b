//! What every end-to-end test stands on: a server that starts on a free port and ends with its
//! test, an HTTP client that sends exact bytes, and tables of behaviours.
//!
//! The servers are Tokamak in each mode, and nginx with php-fpm as the *peer* that says what PHP
//! applications are used to. A behaviour that all of them share is written once: see
//! [`on_every_server`].

mod connection;
#[path = "../../extensions.rs"]
pub mod extensions;
mod fetched;
mod load;
mod peer;
mod ports;
mod process;
mod request;
mod response;
mod server;
mod setup;
mod table;
mod tokamak;
mod web_servers;

pub use connection::{Connection, Failure};
pub use fetched::{fetched, installed};
pub use load::{End, under_load};
pub use peer::php_fpm;
pub use ports::free_address;
pub use process::{Process, eventually};
pub use request::{Multipart, Request, form, get, post};
pub use response::{Framing, Head, Response};
pub use server::Server;
pub use setup::{Kind, Setup, WebServer, is_root, tests};
pub use table::{Row, TOKAMAK, check, check_by, row};
pub use tokamak::program;

/// Turns one function of a [`Kind`] into a test for each kind, by these names.
macro_rules! of_kinds {
    ($function:path; $($test:ident: $kind:ident),*) => { $(
        #[test]
        fn $test() {
            $function($crate::harness::Kind::$kind);
        }
    )* };
}

/// Turns one function of a [`Kind`] into tests: `NAME::classic`, `NAME::worker`,
/// `NAME::concurrent`, `NAME::sealed`, `NAME::fastcgi`, `NAME::fpm`, `NAME::peer`.
macro_rules! on_every_server {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            $crate::harness::of_kinds!(
                super::$name;
                classic: Classic, worker: Worker, concurrent: Async, sealed: Sealed, fastcgi: Fastcgi, fpm: Fpm, peer: Peer
            );
        }
    )* };
}

/// Turns one function of a [`Kind`] into a test for each mode of our own: `NAME::classic`,
/// `NAME::worker`, `NAME::concurrent`, `NAME::sealed`.
macro_rules! in_every_mode {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            $crate::harness::of_kinds!(
                super::$name;
                classic: Classic, worker: Worker, concurrent: Async, sealed: Sealed
            );
        }
    )* };
}

/// Turns one function of a [`Kind`] into three tests: `NAME::tokamak` (classic mode),
/// `NAME::fastcgi` and `NAME::peer`, for what does not depend on the mode.
macro_rules! on_tokamak_and_peer {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            $crate::harness::of_kinds!(super::$name; tokamak: Classic, fastcgi: Fastcgi, peer: Peer);
        }
    )* };
}

pub(crate) use {in_every_mode, of_kinds, on_every_server, on_tokamak_and_peer};

/// Runs `work` for 0, 1, … `count - 1` on 16 threads.
pub fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    in_threads(16, count, work);
}

/// Calls `work` with each number below `count`, in so many threads. The results, in their order.
pub fn in_threads<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results: Vec<_> = (0..count).map(|_| std::sync::Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(result) = results.get(number) else { return };
                    let done = work(number);
                    *result.lock().unwrap() = Some(done);
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().unwrap().expect("all are done")).collect()
}

/// A text of this length in which every place is different: 16-byte lines that are numbered.
pub fn numbered(length: usize) -> Vec<u8> {
    let mut text: Vec<u8> =
        (0..=length / 16).flat_map(|line| format!("{line:015}\n").into_bytes()).collect();
    text.truncate(length);
    text
}

/// The checksum that PHP calls `crc32b`.
pub fn crc32(bytes: &[u8]) -> String {
    let mut table = [0u32; 256];
    for (byte, entry) in (0u32..).zip(table.iter_mut()) {
        *entry = (0..8).fold(byte, |rest, _| rest >> 1 ^ (0xEDB8_8320 & (rest & 1).wrapping_neg()));
    }
    let mut rest = !0u32;
    for byte in bytes {
        rest = table[(rest as u8 ^ byte) as usize] ^ rest >> 8;
    }
    format!("{:08x}", !rest)
}

#[test]
fn crc32_is_the_usual_one() {
    assert_eq!(crc32(b"123456789"), "cbf43926");
}

#[test]
fn numbered_text_has_the_length() {
    assert_eq!(numbered(20), b"000000000000000\n0000");
}
