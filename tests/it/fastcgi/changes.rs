//! Addresses that come and go while the server runs, by command and by reload.

use std::collections::BTreeSet;
use std::time::Duration;

use super::fpm::{Fpm, in_front_of, several};
use crate::harness::{Connection, Response, Server, eventually, post, under_load};
use crate::operate::{command, kill, reload, status, status_when};

const SOON: Duration = Duration::from_secs(20);

/// `tokamak upstream …`: what it printed, or its complaint.
fn upstream(server: &Server, words: &[&str]) -> Result<String, String> {
    let output = command(server, &[&["upstream"], words].concat());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The addresses of the only upstream with their states.
fn states(server: &Server) -> Vec<(String, String)> {
    let status = status(server);
    let addresses = status["upstreams"][0]["addresses"].as_array().expect("addresses").clone();
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    addresses.iter().map(|one| (text(&one["address"]), text(&one["state"]))).collect()
}

/// Sends a request that may not be repeated, and checks that the answer is its own.
fn ask_once(connection: &mut Connection, text: &str) -> Response {
    let target = format!("/pool.php?{text}");
    let response = connection.exchange(&post(&target, "text/plain", "once")).expect(200);
    assert!(response.text().ends_with(&target), "an answer to another request");
    response
}

/// The pools that answer.
fn seen(server: &Server) -> BTreeSet<String> {
    (0..12).map(|_| server.text("/pool.php")[..1].to_owned()).collect()
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// An address is drained, its processes end, they come back, and no request notices, not even one
/// that could not be repeated.
#[test]
fn no_request_is_lost_when_addresses_come_and_go() {
    let mut pools = several(2, 3);
    let addresses = [pools[0].address(), pools[1].address()];
    let server = in_front_of(&pools[..1], "connections = 3").start();
    under_load(&server, ask_once, |load| {
        for round in 0..4 {
            let (old, new) = (round % 2, 1 - round % 2);
            upstream(&server, &["add", "app", &addresses[new]]).unwrap();
            load.goes_on();
            let verb = if round < 2 { "drain" } else { "remove" };
            upstream(&server, &[verb, "app", &addresses[old]]).unwrap();
            if round < 2 {
                let drained = (addresses[old].clone(), "drained".to_owned());
                eventually(SOON, || states(&server).contains(&drained).then_some(()))
                    .expect("it is drained");
            } else {
                assert_eq!(states(&server).len(), 1);
                // The front forgets this pool at once. Its last requests are answered before as
                // many others as these.
                load.goes_on();
            }
            pools[old].kill();
            load.goes_on();
            pools[old].restart();
        }
    });
    assert_eq!(seen(&server), names(["a"]));
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}

#[test]
fn status_shows_the_addresses() {
    let pools = several(2, 1);
    let server = in_front_of(&pools, "").start();
    (0..10).for_each(|_| drop(server.text("/pool.php")));
    let shown = status(&server);
    for (one, pool) in shown["upstreams"][0]["addresses"].as_array().unwrap().iter().zip(&pools) {
        assert_eq!(one["address"], pool.address());
        assert_eq!((&one["state"], &one["weight"]), (&"up".into(), &1.into()));
        assert_eq!(
            (&one["requests"], &one["failures"], &one["idle"]),
            (&5.into(), &0.into(), &1.into())
        );
        assert_eq!((&one["in_use"], &one["waiting"]), (&0.into(), &0.into()));
    }
    let table = String::from_utf8(command(&server, &["status"]).stdout).unwrap();
    let below = table.split_once("\nUPSTREAM").expect("a list of addresses").1;
    for shown in [upstream(&server, &["list"]).unwrap(), format!("UPSTREAM{below}")] {
        let rows: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..5], ["UPSTREAM", "ADDRESS", "WEIGHT", "STATE", "SECONDS"]);
        assert_eq!(rows[1][..4], ["app", &pools[0].address(), "1", "up"]);
        assert_eq!(rows[2][5..], ["5", "0", "0", "1", "0", "kept"]);
    }
    let json = upstream(&server, &["list", "app", "--json"]).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["upstreams"][0]["addresses"][1]["requests"], 5);
}

#[test]
fn a_wrong_command_says_why_and_changes_nothing() {
    let pools = several(1, 1);
    let server = in_front_of(&pools, "").start();
    for (words, why) in [
        (&["list", "other"][..], "there is no upstream `other`"),
        (&["add", "other", "unix:/x"], "there is no upstream `other`"),
        (&["add", "app", "nowhere"], "`nowhere` is no address; write HOST:PORT"),
        (
            &["add", "app", "name.example:9000"],
            "`name.example:9000` has a name; write an IP address",
        ),
        (&["add", "app", "unix:x.sock"], "`unix:x.sock` must be absolute"),
        (&["drain", "app", "unix:/x"], "`unix:/x` is not an address of this upstream"),
        (&["remove", "app", "127.0.0.1:1"], "`127.0.0.1:1` is not an address of this upstream"),
    ] {
        assert_eq!(
            upstream(&server, words).unwrap_err().lines().next().unwrap().find(why),
            Some(9),
            "{why}"
        );
    }
    assert_eq!(states(&server), [(pools[0].address(), "up".into())]);
}

#[test]
fn changes_outlive_a_front_but_not_a_reload() {
    let pools = several(2, 1);
    let server = in_front_of(&pools[..1], "").start();
    let [a, b] = [pools[0].address(), pools[1].address()];
    upstream(&server, &["add", "app", &b, "--weight", "3"]).unwrap();
    upstream(&server, &["drain", "app", &a]).unwrap();
    assert_eq!(seen(&server), names(["b"]));
    let before = status(&server);
    kill("KILL", before["front_pid"].as_u64().unwrap());
    let after = status_when(&server, "another front", |status| {
        status["front_pid"] != before["front_pid"]
            && !status["upstreams"][0]["addresses"][0].is_null()
    });
    assert_eq!(after["upstreams"][0]["addresses"][1]["weight"], 3);
    assert_eq!(seen(&server), names(["b"]));
    reload(&server).unwrap();
    assert_eq!(states(&server), [(a, "up".to_owned())]);
    assert_eq!(seen(&server), names(["a"]));
}

/// A reload takes an address away and adds another one; the processes of the old one end at once.
#[test]
fn no_request_is_lost_when_a_reload_changes_the_addresses() {
    let mut pools: Vec<Fpm> = several(2, 3);
    let server = in_front_of(&pools[..1], "connections = 3").start();
    let addresses = [pools[0].address(), pools[1].address()];
    let file = server.places.top().join("tokamak.toml");
    under_load(&server, ask_once, |load| {
        for round in 0..4 {
            let (old, new) = (round % 2, 1 - round % 2);
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text.replace(&addresses[old], &addresses[new])).unwrap();
            reload(&server).unwrap();
            status_when(&server, "one generation", |status| status["draining"] == 0);
            pools[old].kill();
            load.goes_on();
            pools[old].restart();
        }
    });
    assert!(!server.log().contains("ERROR"), "{}", server.log());
}
