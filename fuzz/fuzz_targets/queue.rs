//! Any bytes as what front and workers read from each other's memory: a request's record, a
//! response's frames.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokamak_sys::queue::record::{Field, Reader};
use tokamak_sys::queue::{Frame, split_frame};

fuzz_target!(|bytes: &[u8]| {
    if let Some(record) = Reader::new(bytes) {
        let fields: usize = Field::ALL.iter().map(|field| record.field(*field).len()).sum();
        let pairs: usize = record.pairs().map(|(name, value)| name.len() + value.len()).sum();
        assert!(fields + pairs <= bytes.len());
    }
    let mut rest = bytes;
    while !rest.is_empty()
        && let Ok((frame, tail)) = split_frame(rest)
    {
        if let Frame::Head(head) | Frame::Interim(head) = frame {
            head.headers().count();
        }
        if let Frame::Usage(usage) = frame {
            assert!(usage.script.len() + usage.uri.len() + usage.user.len() < bytes.len());
        }
        assert!(tail.len() < rest.len());
        rest = tail;
    }
});
