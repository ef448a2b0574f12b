//! Several addresses: who gets which request, and what becomes of it when one of them is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::backend::{Backend, text};
use super::fpm::{Fpm, in_front_of, several};
use crate::harness::{Kind, Server, Setup, eventually, get, in_parallel, tests};
use crate::operate::status;

const SOON: Duration = Duration::from_secs(20);

/// The pool that answers a request, which must be an answer to this very request.
#[track_caller]
fn pool_of(server: &Server, target: &str) -> String {
    let answer = server.text(target);
    let (pool, asked) = answer.split_once(' ').expect("a pool and a target");
    assert_eq!(asked, target);
    pool.to_owned()
}

fn shares(server: &Server, count: usize) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for number in 0..count {
        *shares.entry(pool_of(server, &format!("/pool.php?{number}"))).or_default() += 1;
    }
    shares
}

#[test]
fn each_address_has_its_share() {
    let pools = several(3, 1);
    let [a, b, c] = [&pools[0], &pools[1], &pools[2]].map(Fpm::address);
    let server = in_front_of(&pools, "").start();
    assert_eq!(
        shares(&server, 30),
        [("a", 10), ("b", 10), ("c", 10)].map(|(k, n)| (k.into(), n)).into()
    );
    drop(server); // and the connections that it keeps
    for policy in ["round_robin", "least_busy"] {
        let addresses = format!(
            "address = [{{ address = \"{a}\", weight = 3 }}, \"{b}\", {{ address = \"{c}\", \
                weight = 2 }}]\n\
             balance = \"{policy}\""
        );
        let server =
            Setup::new(Kind::Fastcgi).upstream(&addresses).site_line("upstream = \"app\"").start();
        assert_eq!(
            shares(&server, 30),
            [("a", 15), ("b", 5), ("c", 10)].map(|(k, n)| (k.into(), n)).into()
        );
    }
}

/// Applications called `a`, `b`, … that answer with their name. A request with `hold` waits until
/// the flag is set.
fn named<const N: usize>(release: &Arc<AtomicBool>) -> [Backend; N] {
    std::array::from_fn(|nth| {
        let (name, release) = (char::from(b'a' + nth as u8).to_string(), release.clone());
        Backend::answering(move |asked| {
            if asked.params["QUERY_STRING"].contains("hold") {
                eventually(SOON, || release.load(Ordering::Relaxed).then_some(()));
            }
            text(&name)
        })
    })
}

/// A server that sends `/app` to all of them; `lines` are more lines of its upstream.
fn before(backends: &[Backend], lines: &str) -> Setup {
    let addresses: Vec<&str> = backends.iter().map(|backend| &backend.address[..]).collect();
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = {addresses:?}\n{lines}"))
        .site_line("[[site.route]]\npath = \"/app\"\nupstream = \"app\"")
}

/// Waits until the addresses of the only upstream have so many requests, and so many wait for them.
pub(super) fn wait_for_load(server: &Server, in_use: u64, waiting: u64) {
    let is_so = || {
        let status = status(server);
        let addresses = status["upstreams"][0]["addresses"].as_array().expect("addresses");
        let sum = |what: &str| addresses.iter().map(|one| one[what].as_u64().unwrap()).sum::<u64>();
        ((sum("in_use"), sum("waiting")) == (in_use, waiting)).then_some(())
    };
    eventually(SOON, is_so).unwrap_or_else(|| panic!("{}", status(server)["upstreams"]));
}

#[test]
fn the_least_busy_is_asked() {
    let release = Arc::default();
    let backends = named::<2>(&release);
    let server = before(&backends, "balance = \"least_busy\"").start();
    std::thread::scope(|scope| {
        let long = scope.spawn(|| server.text("/app?hold"));
        wait_for_load(&server, 1, 0);
        let others: BTreeSet<String> = (0..20).map(|_| server.text("/app")).collect();
        release.store(true, Ordering::Relaxed);
        assert_eq!(others.len(), 1, "{others:?}");
        assert!(!others.contains(&long.join().unwrap()));
    });
}

#[test]
fn requests_are_bound_by_what_is_in_them() {
    let pools = several(4, 1);
    let ask = |server: &Server, target: &str, header: Option<(&str, String)>| {
        let mut request = get(target);
        if let Some((name, value)) = header {
            request = request.header(name, &value);
        }
        server.send(&request).expect(200).text()[..1].to_owned()
    };
    type Make = fn(usize) -> (String, Option<(&'static str, String)>);
    let plain: Make = |key| ("/pool.php".into(), Some(("Cookie", format!("a=b; session={key}"))));
    let cases: [(&str, Make); 6] = [
        ("cookie:session", plain),
        ("header:X-User", |key| ("/pool.php".into(), Some(("x-user", key.to_string())))),
        ("query:id", |key| (format!("/pool.php?a=b&id={key}"), None)),
        ("segment:2", |key| (format!("/pool.php/{key}"), None)),
        ("prefix:/pool[.]php/[0-9]+", |key| (format!("/pool.php/{key}"), None)),
        ("user", |key| {
            // `0:x`, `1:x`, …
            let users =
                ["MDp4", "MTp4", "Mjp4", "Mzp4", "NDp4", "NTp4", "Njp4", "Nzp4", "ODp4", "OTp4"];
            ("/pool.php".into(), Some(("Authorization", format!("Basic {}", users[key]))))
        }),
    ];
    for (affinity, make) in cases {
        let server = in_front_of(&pools, &format!("affinity = \"{affinity}\"")).start();
        let mut homes = BTreeMap::new();
        for key in 0..10 {
            let (target, header) = make(key);
            let home = ask(&server, &target, header);
            for _ in 0..3 {
                let (target, header) = make(key);
                assert_eq!(ask(&server, &target, header), home, "{affinity}, {key}");
            }
            homes.insert(key, home);
        }
        let used: BTreeSet<_> = homes.values().collect();
        assert!(used.len() > 1, "{affinity}: {homes:?}");
        // Without the key they are spread as ever.
        let spread: BTreeSet<_> = (0..4).map(|_| ask(&server, "/pool.php", None)).collect();
        assert_eq!(spread.len(), 4, "{affinity}");
    }
    let server = in_front_of(&pools, "affinity = [\"cookie:session\", \"client\"]").start();
    assert_eq!(shares(&server, 12).len(), 1, "all come from one client");
}

#[test]
fn a_script_may_say_what_binds_a_request() {
    let pools = several(4, 1);
    let script = tests().join("lua/scripts/shard.lua");
    let server = in_front_of(&pools, "affinity = \"variable:SHARD\"")
        .site_line(&format!("lua_raw_url = [\"{}\"]", script.display()))
        .start();
    let ask = |target: &str| server.get(target).expect(200).text()[..1].to_owned();
    let homes: Vec<String> = (0..10).map(|digit| ask(&format!("/pool.php?{digit}"))).collect();
    for (digit, home) in homes.iter().enumerate() {
        for number in 0..3 {
            assert_eq!(ask(&format!("/pool.php?{number}{digit}")), *home, "{homes:?}");
        }
    }
    assert!(homes.iter().any(|home| *home != homes[0]), "{homes:?}");
    let spread: BTreeSet<_> = (0..4).map(|_| ask("/pool.php?none")).collect();
    assert_eq!(spread.len(), 4);
}

/// Pools are killed and come back under load: no repeatable request notices, no answer is somebody
/// else's, and keys move only from the dead, and back.
#[test]
fn keys_move_only_from_the_dead() {
    const KEYS: usize = 40;
    let mut pools = several(4, 2);
    let server =
        in_front_of(&pools, "affinity = \"query:key\"\nconnections = 2\npause = \"100ms\"").start();
    let home = |key: usize| pool_of(&server, &format!("/pool.php?key={key}"));
    let homes: Vec<String> = (0..KEYS).map(home).collect();
    let (done, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    // Which pool is dead, or may be: answers of others must come from where they belong.
    let victim = AtomicUsize::new(usize::MAX);
    std::thread::scope(|scope| {
        for client in 0..6 {
            let (server, homes, done, served, victim) = (&server, &homes, &done, &served, &victim);
            scope.spawn(move || {
                let mut connection = server.connect();
                for number in client.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = number % KEYS;
                    let target = format!("/pool.php?key={key}&{client}-{number}");
                    let dead = || ["a", "b", "c", "d"].get(victim.load(Ordering::SeqCst));
                    let before = dead();
                    let answer = connection.exchange(&get(&target)).expect(200).text();
                    let (pool, asked) = answer.split_once(' ').unwrap();
                    assert_eq!(asked, target, "an answer to another request");
                    let may_move = [before, dead()].contains(&Some(&homes[key].as_str()));
                    assert!(pool == homes[key] || may_move, "key {key} is not from {pool}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..6 {
            let nth = round % 2;
            let more = |count| {
                let before = served.load(Ordering::Relaxed);
                eventually(SOON, || (served.load(Ordering::Relaxed) > before + count).then_some(()))
            };
            victim.store(nth, Ordering::SeqCst);
            pools[nth].kill();
            let goes_on = more(100).is_some();
            pools[nth].restart();
            let key = (0..KEYS).find(|key| homes[*key] == pools[nth].name).expect("it has a key");
            let is_back =
                eventually(SOON, || (home(key) == pools[nth].name).then_some(())).is_some();
            victim.store(usize::MAX, Ordering::SeqCst);
            if !goes_on || !is_back || more(100).is_none() {
                done.store(true, Ordering::Relaxed);
                panic!("round {round}: goes on {goes_on}, keys come back {is_back}");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!((0..KEYS).map(home).collect::<Vec<_>>(), homes);
    assert!(!server.log().contains("ERROR"), "{}", server.log());
    server.log_line(&["upstream app: unix:", "is left out for 0.1 s"]);
    server.log_line(&["upstream app: unix:", "answers again"]);
}

#[test]
fn bound_requests_wait_or_spill() {
    let lines = "affinity = \"query:key\"\nconnections = 1";
    for (spill, homes) in [(false, 1), (true, 3)] {
        let release = Arc::default();
        let backends = named::<3>(&release);
        // Two event loops that choose in the same microsecond may both see the last free
        // connection, and one waits.
        let server =
            before(&backends, &format!("{lines}\nspill = {spill}")).line("loops = 1").start();
        std::thread::scope(|scope| {
            let asking = [(); 3].map(|()| scope.spawn(|| server.text("/app?key=1&hold")));
            wait_for_load(&server, homes, 3 - homes);
            release.store(true, Ordering::Relaxed);
            let seen: BTreeSet<String> = asking.map(|one| one.join().unwrap()).into();
            assert_eq!(seen.len() as u64, homes, "spill = {spill}");
        });
    }
}

/// What a backend does with requests.
#[derive(Clone, Copy, PartialEq)]
enum Health {
    /// Closes the connection.
    Bad,
    /// Waits for better or worse.
    Undecided,
    /// Answers.
    Good,
}

/// An address whose requests are lost is left out, tried by one request at a time, and taken back
/// when that is answered.
#[test]
fn a_failing_address_is_left_out_and_tried_again() {
    let health = Arc::new(Mutex::new(Health::Bad));
    let turn = |next| *health.lock().unwrap() = next;
    let of_backend = health.clone();
    let bad = Backend::start(move |client| {
        let decided = || {
            let health = *of_backend.lock().unwrap();
            (health != Health::Undecided).then_some(health)
        };
        while client.request().is_some() && eventually(SOON, decided) == Some(Health::Good) {
            client.send(&text("bad"));
        }
    });
    let good = Backend::answering(|_| text("good"));
    let backends = [bad, good];
    let bad = &backends[0];
    let start =
        |pause: &str| before(&backends, &format!("failures = 2\npause = \"{pause}\"")).start();

    let server = start("1m");
    (0..40).for_each(|_| assert_eq!(server.text("/app"), "good"));
    assert_eq!(bad.requests(), 2, "then it was left out");
    drop(server);

    let server = start("200ms");
    let left_out = || server.log().matches("is left out for").count();
    eventually(SOON, || {
        assert_eq!(server.text("/app"), "good");
        (left_out() > 0).then_some(())
    })
    .expect("it is left out");
    turn(Health::Undecided);
    std::thread::scope(|scope| {
        let before = bad.requests();
        let is_tried = move || (bad.requests() > before).then_some(());
        let server = &server;
        let trying = scope.spawn(move || {
            eventually(SOON, || {
                assert_eq!(server.text("/app"), "good");
                is_tried()
            })
        });
        eventually(SOON, is_tried).expect("one request tries it");
        in_parallel(40, |_| assert_eq!(server.text("/app"), "good"));
        assert_eq!(bad.requests(), before + 1, "more than one request tries it");
        turn(Health::Bad);
        trying.join().unwrap().expect("it is tried");
    });
    server.log_line(&["is left out for 0.2 s", "closed the connection unanswered"]);
    server.log_line(&["is left out for 0.4 s"]);
    turn(Health::Good);
    eventually(SOON, || (server.text("/app") == "bad").then_some(())).expect("it is taken back");
    server.log_line(&["answers again"]);
    assert!((0..10).filter(|_| server.text("/app") == "bad").count() == 5);
}

/// The last hope is asked though it is out.
#[test]
fn when_all_are_out_they_are_asked_all_the_same() {
    let mut pools = several(2, 1);
    let server = in_front_of(&pools, "pause = \"60s\"").start();
    pools.iter_mut().for_each(Fpm::kill);
    server.get("/pool.php").expect(502);
    pools.iter_mut().for_each(Fpm::restart);
    assert_eq!(
        shares(&server, 10).len(),
        1,
        "the first that answered; the other one still has its pause"
    );
}

/// Checks find out that an address is gone, and that it is back, without any request.
#[test]
fn checks_take_addresses_out_and_back() {
    let mut pools = several(2, 1);
    let lines = "failures = 0\ncheck = \"/ping\"\ncheck_interval = \"100ms\"\ncheck_fall = 2";
    let server = in_front_of(&pools, lines).start();
    let state = |nth: usize| status(&server)["upstreams"][0]["addresses"][nth]["state"].clone();
    for _ in 0..2 {
        pools[1].kill();
        eventually(SOON, || (state(1) == "down").then_some(())).expect("it is found down");
        assert_eq!(shares(&server, 10), [("a".to_owned(), 10)].into());
        pools[1].restart();
        eventually(SOON, || (state(1) == "up").then_some(())).expect("it is found up");
        assert_eq!(shares(&server, 10).len(), 2);
    }
    server.log_line(&["is left out until it is well again: the application cannot be reached"]);
    server.log_line(&["is well again"]);
}

#[test]
fn a_check_has_its_own_status_and_parameters() {
    let pools = several(1, 1);
    let check = "check = \"/none.php\"\ncheck_interval = \"100ms\"\ncheck_fall = 1\ncheck_rise = 1";
    let state = |server: &Server| status(server)["upstreams"][0]["addresses"][0]["state"].clone();
    let server = in_front_of(&pools, check).start();
    server.log_line(&["is left out until it is well again: a check was answered with status 404"]);
    assert_eq!(state(&server), "down");
    assert_eq!(shares(&server, 4).len(), 1, "the last hope");
    let ping = "check_params = { SCRIPT_NAME = \"/ping\", SCRIPT_FILENAME = \"/ping\" }";
    for more in ["check_status = 404", ping] {
        let server = in_front_of(&pools, &format!("{check}\n{more}")).start();
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(state(&server), "up", "{more}");
        assert!(!server.log().contains("left out"), "{}", server.log());
    }
}
