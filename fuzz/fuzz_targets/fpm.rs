//! Any bytes as what `tokamak fpm` reads of people and of its own workers: a line of the
//! configuration, a command line, an `access.format`, and the output of a worker, of which no byte
//! may get lost.

#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::UNIX_EPOCH;

use libfuzzer_sys::fuzz_target;
use tokamak_fpm::access::Format;
use tokamak_fpm::log::Style;
use tokamak_fpm::worker_output::{FLUSH, Stream, WorkerOutput};
use tokamak_fpm::{arguments, ini};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = ini::parse(text, &|name| Some(name.to_string()));
        let _ = Format::compile(text);
    }
    let _ = arguments::parse(
        bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())),
    );
    said(bytes);
});

/// The same output in one piece and in small ones.
fn said(bytes: &[u8]) {
    let worker =
        || WorkerOutput::new(Style { limit: 512, ..Style::default() }, false, true, "www", 1);
    let mut whole = worker();
    let mut expected = whole.feed(Stream::Stderr, bytes, UNIX_EPOCH);
    expected.extend(whole.end(UNIX_EPOCH));
    let mut pieces = worker();
    let mut found = Vec::new();
    for piece in bytes.chunks(FLUSH.len() - 1) {
        found.extend(pieces.feed(Stream::Stderr, piece, UNIX_EPOCH));
    }
    found.extend(pieces.end(UNIX_EPOCH));
    assert_eq!(found, expected);
}
