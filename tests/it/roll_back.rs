//! What sealed mode costs an application that boots in each request.

use crate::harness::{Kind, Server, Setup};

/// Page faults of the worker so far, and mappings for compiled expressions.
fn numbers(server: &Server) -> Vec<u64> {
    let text = server.get("/").expect(200).text();
    text.split(' ').map(|number| number.parse().unwrap()).collect()
}

/// A page fault makes the roll-back look at the page map, which takes longer than all else in it.
/// So memory that each request asks for is there from the request before: chunks, big blocks, and
/// what PCRE maps for its code.
#[test]
fn the_same_request_again_has_no_page_faults() {
    let server = Setup::new(Kind::Sealed).site("sites/unbooted").bare().workers(1).start();
    let faults = || numbers(&server)[0];
    // Until regular expressions are learned, too.
    for _ in 0..70 {
        faults();
    }
    let before = faults();
    for _ in 0..29 {
        faults();
    }
    let more = faults() - before;
    // Some come from a kernel that takes pages of programs away; each request's own memory would be
    // thousands.
    assert!(more < 300, "{more} page faults in 30 requests");
}

/// Compiled once in a worker, as in classic mode, and not in each request.
#[test]
fn regular_expressions_of_many_requests_are_learned() {
    let server = Setup::new(Kind::Sealed).site("sites/unbooted").bare().workers(1).start();
    let compiled = || numbers(&server)[1];
    assert_ne!(compiled(), 0, "expressions are compiled where this looks for them");
    // Until they are learned, and then until memory that nobody asks for any more is given back.
    for _ in 0..150 {
        compiled();
    }
    assert_eq!(compiled(), 0);
    assert!(!server.log().contains("replaced"), "{}", server.log());
}

/// Somebody who chose sealed mode and has forgotten the rest hears of it.
#[test]
fn an_application_that_is_not_booted_is_named_at_start() {
    let server = Setup::new(Kind::Sealed).site("sites/unbooted").bare().workers(1).start();
    server
        .log_line(&["WARN [localhost]", "neither worker nor boot is no faster than classic mode"]);
}
