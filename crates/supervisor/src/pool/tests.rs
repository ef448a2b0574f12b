use std::cell::RefCell;
use std::path::Path;

use tokamak_sys::channel::{self, Channel};
use tokamak_sys::control::{EXIT_MISMATCH, FromZygote, Status, send};

use super::*;
use crate::means::{FrontPlan, Means, Process, Started, ZygoteStart};
use crate::zygote::Launch;

/// Starts zygotes that are nothing but the other end of a channel.
#[derive(Default)]
struct Paper(RefCell<Vec<Channel>>);

#[derive(Debug)]
struct Sheet;

impl Process for Sheet {
    fn id(&self) -> u32 {
        1
    }

    fn kill(&self) {}
}

impl Means for Paper {
    fn zygote(&self, _start: ZygoteStart<'_>) -> io::Result<Started> {
        let (ours, theirs) = Channel::pair()?;
        self.0.borrow_mut().push(theirs);
        Ok((Box::new(Sheet), Box::new(ours)))
    }

    fn front(&self, _plan: FrontPlan<'_>) -> io::Result<Started> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_queue_that_no_zygote_understands_any_more_is_spoiled() {
    let server = settings::tests::server(Path::new("/srv"));
    for (was_understood, expected) in [(true, true), (false, false)] {
        let means = Paper::default();
        let launch = Launch { means: &means, identity: None };
        let bells = (0..server.loops).map(|_| channel::bell().unwrap()).collect();
        let mut pool = Pool::new(&server, 0, 0, bells).unwrap();
        let mut deaths = Vec::new();
        pool.tick(launch, 1, &mut deaths);
        if was_understood {
            let ready = FromZygote::Ready { version: "8.2".to_owned(), exposes: false };
            send(&means.0.borrow()[0], &ready, &[]).unwrap();
            pool.receive(launch, 2, &mut deaths);
        }
        assert!(pool.zygote_exited(1, Status::Code(EXIT_MISMATCH), 3, &mut deaths));
        let is_spoiled = matches!(pool.renewal_reason(), Some(RenewalReason::Spoiled(_)));
        assert_eq!(is_spoiled, expected, "understood before: {was_understood}");
    }
}
