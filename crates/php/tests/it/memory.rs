//! What is freed is freed once. Without sanitizers (scripts/test-sanitizers) most of this passes
//! anyway.

use tokamak_sys::control::Status;

use crate::harness::*;

#[test]
fn what_a_request_said_about_itself_is_freed_once_though_the_script_ends_after_it() {
    for header in [None, Some("Basic dXNlcjpwYXNzd29yZA=="), Some("Digest username=\"user\"")] {
        let mut site = Site::worker(
            "<?php while (tokamak_handle_request(fn() => print get_current_user())) {}",
            &[],
        );
        let mut ask = post("/", "application/octet-stream", b"some bytes");
        if let Some(value) = header {
            ask = ask.header("Authorization", value);
        }
        assert_eq!(site.ask(ask).status, 200);
        site.producer.segment().retire(0);
        assert_eq!(site.hear_exit(), Status::Code(0), "{}", site.log());
    }
}
