//! What comes first when there is more than the client takes at once (RFC 9218).

use std::collections::BTreeMap;
use std::fs::{self, File};

use crate::harness::{Kind, Server, Setup, eventually};
use crate::metrics;

use super::client::{PATIENCE, Raw, field, head};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
const DEFAULT_WINDOW: u32 = 65_535;
const LARGEST_WINDOW: u32 = 0x7fff_ffff;

/// What the others may get while the first one is on its way: what lies in sockets and buffers when
/// the server hears of it. With turns for all, it would be many times more.
const UNDER_WAY: usize = 1024 * 1024;

/// Images of a page.
const IMAGES: u32 = 40;

/// A request: path and priority; none if empty.
type Asked<'a> = (&'a str, &'a str);

fn start(lines: &[&str]) -> Server {
    let setup = lines.iter().fold(Setup::new(Kind::Classic), |setup, line| setup.line(line));
    let server = metrics::start(setup);
    // Files with nothing in them take no room.
    for (name, length) in [("image.png", UNDER_WAY), ("style.css", 40_000), ("script.js", 250_000)]
    {
        let file = File::create(server.places.root().join(name)).unwrap();
        file.set_len(length as u64).unwrap();
    }
    let script = "<?php header('Priority: u=0'); echo str_repeat('x', 40_000);";
    fs::write(server.places.root().join("first.php"), script).unwrap();
    server
}

/// Asks for all of these on one connection, and reads nothing before the server has seen the last
/// of them.
fn ask(server: &Server, all: &[Asked<'_>]) -> Raw {
    // And without the older priorities (RFC 9218 section 2.1), as browsers say.
    let settings = [&[0, 4][..], &LARGEST_WINDOW.to_be_bytes(), &[0, 9, 0, 0, 0, 1]].concat();
    let mut raw = Raw::open(server, &settings);
    raw.frame(WINDOW_UPDATE, 0, 0, &(LARGEST_WINDOW - DEFAULT_WINDOW).to_be_bytes());
    let before = metrics::samples(server)["tokamak_http2_requests_total"];
    for (number, (path, priority)) in all.iter().enumerate() {
        let mut fields = head("GET", path);
        if !priority.is_empty() {
            fields.extend(field("priority", priority));
        }
        raw.frame(HEADERS, 5, 2 * number as u32 + 1, &fields);
        // So that the last one is not in the same read as the others.
        let seen = before + number as f64 + 1.0;
        if number + 2 >= all.len() {
            metrics::samples_when(server, "tokamak_http2_requests_total", seen);
        }
    }
    raw
}

/// Asks for all of these and reads everything. Gives, for each, how many bytes of the others had
/// come at its end.
fn fetch(server: &Server, all: &[Asked<'_>]) -> Vec<usize> {
    let mut raw = ask(server, all);
    let (mut came, mut ends) = (BTreeMap::<u32, usize>::new(), BTreeMap::new());
    while ends.len() < all.len() {
        let (_, flags, stream, payload) = raw.frame_of(&[DATA]);
        *came.entry(stream).or_default() += payload.len();
        if flags & 1 != 0 {
            ends.insert(stream, came.values().sum::<usize>() - came[&stream]);
        }
    }
    ends.into_values().collect()
}

fn page_with<'a>(last: Asked<'a>) -> Vec<Asked<'a>> {
    let images = (0..IMAGES).map(|_| ("/image.png", "u=5, i"));
    images.chain([last]).collect()
}

#[test]
fn what_is_urgent_overtakes_what_is_not() {
    let server = start(&[]);
    for last in
        [("/style.css", "u=0"), ("/script.js", "u=1"), ("/first.php", ""), ("/style.css", "")]
    {
        let others = *fetch(&server, &page_with(last)).last().unwrap();
        assert!(others < UNDER_WAY, "{last:?}: {others} bytes of images came before its end");
    }
}

#[test]
fn what_is_as_urgent_as_the_others_waits_with_them() {
    let server = start(&[]);
    let others = *fetch(&server, &page_with(("/script.js", "u=5, i"))).last().unwrap();
    assert!(others > UNDER_WAY, "{others}");
}

/// Half a script is of no use: the first one comes whole, and then the second.
#[test]
fn what_is_of_use_as_a_whole_comes_one_by_one() {
    let server = start(&[]);
    let ends = fetch(&server, &[("/image.png", "u=1"); 8]);
    for (number, others) in ends.into_iter().enumerate() {
        let earlier = number * UNDER_WAY;
        assert!(others < earlier + UNDER_WAY / 2, "{number}: {others}");
    }
}

/// A client that says nothing gets its responses side by side, as large ones as well.
#[test]
fn without_a_word_responses_come_side_by_side() {
    let server = start(&[]);
    let ends = fetch(&server, &[("/image.png", ""); 8]);
    assert!(ends[0] > 2 * UNDER_WAY, "{ends:?}");
}

/// The requests of a proxy are of many clients: one must not put its own before those of others.
#[test]
fn clients_of_one_proxy_have_no_priorities() {
    let server = start(&["trusted_proxies = [\"127.0.0.1\"]"]);
    let others = *fetch(&server, &page_with(("/script.js", "u=0"))).last().unwrap();
    assert!(others > UNDER_WAY, "{others}");
}

/// Responses that wait for their turn when the client goes away end and are logged like all others.
#[test]
fn streams_of_an_ended_connection_do_not_wait() {
    let server = start(&["log.access = \"state/access.log\""]);
    drop(ask(&server, &page_with(("/style.css", "u=0"))));
    let logged = || {
        let log = fs::read_to_string(server.state_file("access.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("HTTP/2.0")).count()
    };
    let all = IMAGES as usize + 1;
    let are = || (logged() == all).then_some(());
    assert!(eventually(PATIENCE, are).is_some(), "{} of {all} are logged", logged());
}

/// An urgent response whose client does not open its window keeps nothing back.
#[test]
fn a_closed_window_does_not_hold_up_other_streams() {
    let server = start(&[]);
    let mut raw = Raw::open(&server, b"");
    raw.frame(WINDOW_UPDATE, 0, 0, &(LARGEST_WINDOW - DEFAULT_WINDOW).to_be_bytes());
    let ask = |raw: &mut Raw, stream: u32, path: &str, priority: &str| {
        raw.frame(HEADERS, 5, stream, &[head("GET", path), field("priority", priority)].concat());
    };
    ask(&mut raw, 1, "/image.png", "u=0");
    ask(&mut raw, 3, "/image.png", "u=5");
    let mut came = BTreeMap::<u32, usize>::new();
    while came.get(&3).copied().unwrap_or_default() < UNDER_WAY {
        let (_, _, stream, payload) = raw.frame_of(&[DATA]);
        *came.entry(stream).or_default() += payload.len();
        if stream == 3 {
            raw.frame(WINDOW_UPDATE, 0, 3, &(payload.len() as u32).to_be_bytes());
        }
    }
    assert_eq!(came[&1], DEFAULT_WINDOW as usize);
    raw.frame(WINDOW_UPDATE, 0, 1, &LARGEST_WINDOW.div_ceil(2).to_be_bytes());
    while came[&1] < UNDER_WAY {
        let (_, _, stream, payload) = raw.frame_of(&[DATA]);
        *came.entry(stream).or_default() += payload.len();
    }
}

/// A client changes its mind (PRIORITY_UPDATE), about a request under way and one that has not
/// come.
#[test]
fn an_update_of_the_priority_counts() {
    const PRIORITY_UPDATE: u8 = 16;
    let server = start(&[]);
    let mut page = page_with(("/script.js", "u=7, i"));
    page.push(("/style.css", "u=7, i"));
    let mut raw = ask(&server, &page[..page.len() - 1]);
    let (script, style) = (2 * IMAGES + 1, 2 * IMAGES + 3);
    for stream in [script, style] {
        let payload = [&stream.to_be_bytes()[..], b"u=0"].concat();
        raw.frame(PRIORITY_UPDATE, 0, 0, &payload);
    }
    raw.frame(HEADERS, 5, style, &[head("GET", "/style.css"), field("priority", "u=7")].concat());
    metrics::samples_when(&server, "tokamak_http2_requests_total", page.len() as f64);
    let (mut others, mut ended) = (0, 0);
    while ended < 2 {
        let (_, flags, stream, payload) = raw.frame_of(&[DATA]);
        if stream < script {
            others += payload.len();
        } else if flags & 1 != 0 {
            ended += 1;
        }
    }
    assert!(others < 2 * UNDER_WAY, "{others} bytes of images came before their end");
}
