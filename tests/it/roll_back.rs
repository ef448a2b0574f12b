//! What sealed mode costs an application that boots in each request.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use crate::harness::{Kind, Server, Setup, eventually};

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

/// A worker has learned from others before this page is asked for.
#[test]
fn expressions_of_a_page_that_comes_later_are_learned() {
    let server = Setup::new(Kind::Sealed).site("sites/unbooted").bare().workers(1).start();
    let compiled = || numbers(&server)[1];
    for _ in 0..70 {
        server.get("/paths.php").expect(200);
    }
    assert_ne!(compiled(), 0);
    for _ in 0..550 {
        compiled();
    }
    assert_eq!(compiled(), 0);
    assert!(!server.log().contains("replaced"), "{}", server.log());
}

/// A server whose requests look up a link, and some of them a file of their visitor.
fn with_paths(setup: Setup) -> Server {
    let server = setup.site("sites/unbooted").bare().workers(1).start();
    for name in ["first", "second", "own"] {
        fs::write(server.state_file(name), "").unwrap();
    }
    symlink(server.state_file("first"), server.state_file("current")).unwrap();
    assert_eq!(server.get("/paths.php").expect(200).json()["knows_link"], false);
    for number in 0..60 {
        let target = if number % 10 == 0 { "/paths.php?own" } else { "/paths.php" };
        server.get(target).expect(200);
    }
    server
}

/// Looked up once in a worker, as in classic mode, and not in each request; but not what few
/// visitors have asked for.
#[test]
fn paths_of_most_requests_are_learned() {
    let server = with_paths(Setup::new(Kind::Sealed));
    let answer = server.get("/paths.php").expect(200).json();
    assert_eq!(answer["knows_link"], true, "{answer}");
    assert_eq!(answer["knows_own"], false, "{answer}");
    assert!(!server.log().contains("replaced"), "{}", server.log());
}

/// PHP forgets a path after a time. A learned one would be back in the next request.
#[test]
fn learned_paths_follow_a_link_that_was_changed() {
    let server = with_paths(Setup::new(Kind::Sealed).php_value("realpath_cache_ttl", "1"));
    let ask = || server.get("/paths.php").expect(200).json();
    let learned = || (ask()["knows_link"] == true).then_some(());
    eventually(Duration::from_secs(20), learned).expect("the link is learned");
    symlink(server.state_file("second"), server.state_file("next")).unwrap();
    fs::rename(server.state_file("next"), server.state_file("current")).unwrap();
    let followed = || (ask()["link"] == "second").then_some(());
    eventually(Duration::from_secs(20), followed).expect("the link leads elsewhere now");
    for _ in 0..20 {
        assert_eq!(ask()["link"], "second");
    }
    server.log_line(&["worker replaced", "a path that most requests use leads elsewhere now"]);
}

/// Somebody who chose sealed mode and has forgotten the rest hears of it.
#[test]
fn an_application_that_is_not_booted_is_named_at_start() {
    let server = Setup::new(Kind::Sealed).site("sites/unbooted").bare().workers(1).start();
    server
        .log_line(&["WARN [localhost]", "neither worker nor boot is no faster than classic mode"]);
}
