//! What one request leaves behind for the next, channel by channel and mode by mode. `tests/canary`
//! has the channels and, beside each, what is expected; `docs/isolation.md` is the table of what
//! was seen.

use serde_json::Value;

use crate::harness::{Connection, Kind, Multipart, Request, Response, Setup, get, on_every_server};

/// Libraries whose first use decides for all later ones, and the system's log.
mod first_use;
/// The table in `docs`.
mod page;
/// No random value comes twice.
mod random;
/// No salt of SNMPv3 comes twice.
pub mod snmp;

on_every_server! { nothing_is_left_but_what_is_expected }

/// One way by which a request could reach the next one.
struct Channel {
    topic: String,
    name: String,
    /// What is expected, by [`name`] of the server.
    expected: Value,
    /// The polluting request cannot see its own pollution.
    later: bool,
    /// PHP has the extension.
    here: bool,
    /// There is no such channel without FFI.
    ffi: bool,
}

/// What a request saw of a channel.
#[derive(Debug)]
struct Sight {
    process: Value,
    seen: Value,
    /// Status and header fields.
    head: Vec<String>,
}

fn setup(kind: Kind) -> Setup {
    let setup = Setup::new(kind).site("canary").workers(1).php_admin_value("ffi.enable", "1");
    // A script that is too young for opcache is read anew each time, and then shows among the open
    // files.
    setup.php_admin_value("opcache.file_update_protection", "0")
}

fn nothing_is_left_but_what_is_expected(kind: Kind) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    let outcomes = outcomes(setup(kind));
    for (channel, outcome) in &outcomes {
        let like = if kind == Kind::Async { "worker" } else { name(kind) };
        let expected = channel.expected[like].as_str().expect("an expectation");
        let is_own = kind == Kind::Async && OWN_IN_ASYNC.contains(&channel.name.as_str());
        let expected = if is_own { "reset" } else { expected };
        match outcome {
            None => found.push((channel, None)),
            Some(Ok(outcome)) if is_as_expected(outcome, expected) => {
                found.push((channel, Some(expected)))
            }
            Some(Ok(outcome)) => wrong.push(format!("{}: {outcome}, not {expected}", channel.name)),
            Some(Err(error)) => wrong.push(format!("{}: {error}", channel.name)),
        }
    }
    assert!(wrong.is_empty(), "{kind:?}: {} channels:\n{}", wrong.len(), wrong.join("\n"));
    page::compare(name(kind), &found);
}

/// Sealed mode without a worker script: whatever is in the image, nothing stays.
#[test]
fn nothing_stays_in_images_of_other_depths() {
    let images: [fn(Setup) -> Setup; 3] = [
        Setup::bare,
        |setup| setup.boot("boot.php"),
        |setup| setup.boot("boot.php").warm(&["/index.php", "/random.php"]),
    ];
    for image in images {
        for (channel, outcome) in outcomes(image(setup(Kind::Sealed))) {
            let may_stay = channel.expected["sealed"] == "shared";
            match outcome {
                Some(Ok("stays")) if !may_stay => panic!("{} stays", channel.name),
                Some(Err(error)) => panic!("{}: {error}", channel.name),
                _ => {}
            }
        }
    }
}

/// Every channel, and what becomes of it; nothing if PHP lacks the extension.
fn outcomes(setup: Setup) -> Vec<(Channel, Option<Result<&'static str, String>>)> {
    let is_async = setup.kind() == Kind::Async;
    let server = setup.start();
    let mut connection = server.connect();
    let mut channels = channels(&connection.exchange(&get("/index.php")));
    for channel in &mut channels {
        channel.later |= is_async && FORGOTTEN_IN_ASYNC.contains(&channel.name.as_str());
    }
    assert!(
        channels.iter().filter(|channel| channel.here).count() >= 100,
        "too few channels are here"
    );
    let with_outcome = |channel: Channel| {
        let outcome = channel.here.then(|| outcome(&mut connection, &channel));
        (channel, outcome)
    };
    let outcomes = channels.into_iter().map(with_outcome).collect();
    connection.exchange(&get("/index.php?do=end")).expect(200);
    assert!(!server.log().contains("cannot rollback"), "a database without a transaction is news");
    outcomes
}

/// What is shared is seen to stay; that this is its purpose cannot be seen.
fn is_as_expected(outcome: &str, expected: &str) -> bool {
    outcome == if expected == "shared" { "stays" } else { expected }
}

/// Channels that stay in worker mode, and are each request's own in async mode.
const OWN_IN_ASYNC: &[&str] = &[
    "assert() callback",
    "register_tick_function()",
    "stream_context_set_default()",
    "libxml_set_streams_context()",
    "mt_srand()",
    "strtok()",
    "json_last_error()",
    "preg_last_error()",
    "libxml_use_internal_errors()",
    "libxml_get_errors()",
    "libxml_set_external_entity_loader()",
    "libxml_get_last_error()",
    "imap_last_error()",
    "mb_regex_set_options()",
    "textdomain()",
    "openssl_error_string()",
    "posix_get_last_error()",
    "socket_last_error()",
    "mysqli_connect_errno()",
    "mysqli_report()",
    "snmp_set_quick_print()",
    "snmp_set_valueretrieval()",
];

/// Channels whose pollution waits for a program, and is forgotten meanwhile in async mode: who
/// waits has others look.
const FORGOTTEN_IN_ASYNC: &[&str] = &["stat cache"];

/// What the channels and the page call a server.
fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Peer | Kind::Fastcgi => "php-fpm",
        Kind::Classic | Kind::Fpm => "classic",
        Kind::Worker => "worker",
        Kind::Async => "async",
        Kind::Sealed | Kind::FpmSealed => "sealed",
    }
}

fn channels(list: &Response) -> Vec<Channel> {
    let text = |value: &Value| value.as_str().expect("a text").to_string();
    let read = |entry: &Value| Channel {
        topic: text(&entry["topic"]),
        name: text(&entry["name"]),
        expected: entry["expected"].clone(),
        later: entry["later"] == true,
        here: entry["here"] == true,
        ffi: entry["ffi"] == true,
    };
    list.json()["seen"].as_array().expect("a list of channels").iter().map(read).collect()
}

/// Pollutes a channel and says what the next request finds: nothing ("reset"), the pollution
/// ("stays"), or nothing because another process serves it ("replaced").
///
/// Two clean looks must agree, or a third that differs would mean nothing. The pollution must be
/// visible where it happens, or its absence later would mean nothing. Two looks follow, because
/// some pollution shows after the response.
fn outcome(connection: &mut Connection, channel: &Channel) -> Result<&'static str, String> {
    let mut look = |request: &Request| sight(&connection.exchange(request));
    let (probe, pollute) = (probe(&channel.name), pollute(&channel.name));
    let (first, clean, polluted) = (look(&probe)?, look(&probe)?, look(&pollute)?);
    let after = [look(&probe)?, look(&probe)?];
    if first.process != polluted.process || clean.process != polluted.process {
        Err("the polluting request had a process of its own".into())
    } else if !first.is_like(&clean) {
        Err(format!("two clean requests differ: {first:?}, {clean:?}"))
    } else if !channel.later && polluted.seen == clean.seen {
        Err(format!("the pollution does not show in its own request: {clean:?}, {polluted:?}"))
    } else if !after.iter().all(|sight| sight.is_like(&clean)) {
        Ok("stays")
    } else if after.iter().any(|sight| sight.process != polluted.process) {
        Ok("replaced")
    } else {
        Ok("reset")
    }
}

fn probe(channel: &str) -> Request {
    get(&target(channel, "probe"))
}

/// A request that has everything by which a client may leave traces.
fn pollute(channel: &str) -> Request {
    let form = Multipart::default().field("field", "polluted").file(
        "file",
        "a.txt",
        "text/plain",
        b"polluted",
    );
    let request = form.post(&target(channel, "pollute"));
    request.header("Cookie", "polluted=yes").header("X-Polluted", "yes").basic_auth("polluted:yes")
}

fn target(channel: &str, act: &str) -> String {
    let name: String = channel.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("/index.php?do={act}&channel={name}")
}

fn sight(response: &Response) -> Result<Sight, String> {
    let answer: Value =
        serde_json::from_slice(&response.body).map_err(|error| format!("{error} in {response}"))?;
    let varies = ["date", "content-length", "transfer-encoding"];
    let fields = response.head.headers.iter();
    let fields = fields.filter(|(name, _)| !varies.contains(&name.to_ascii_lowercase().as_str()));
    let head = std::iter::once(response.status().to_string());
    let head = head.chain(fields.map(|(name, value)| format!("{name}: {value}"))).collect();
    Ok(Sight { process: answer["pid"].clone(), seen: answer["seen"].clone(), head })
}

impl Sight {
    fn is_like(&self, other: &Sight) -> bool {
        self.seen == other.seen && self.head == other.head
    }
}
