//! What scripts find, and what the specification asks of an application.

use std::fs;
use std::time::Duration;

use tokamak_fastcgi::{ProtocolStatus, Role, Values, ValuesQuery, encode};

use super::{BEGINS, Launcher, PATIENCE, script};
use crate::fpm::client::{Client, Heard};
use crate::harness::{eventually, in_parallel, numbered};

const HELLO: (&str, &str) =
    ("hello.lua", "print('Content-Type: text/plain\\r\\n\\r\\n', 'Hello', ' ', 'you')");
const ECHO: (&str, &str) =
    ("echo.lua", "print('Content-Type: text/plain\\n\\n') io.write(io.read('*a'))");
const SLOW: (&str, &str) = ("slow.lua", "tokamak.sleep(1.5) print('A: b\\r\\n\\r\\nslept')");

#[test]
fn a_kept_connection_serves_one_request_after_the_other() {
    let launcher = Launcher::start(&[], &[HELLO, ECHO]);
    let mut client = launcher.connect();
    for nth in 0..50 {
        let body = format!("body {nth}");
        assert_eq!(client.ask(&launcher.request("/echo.lua").post(body.as_bytes())).stdout, {
            format!("Content-Type: text/plain\n\n{body}").into_bytes()
        });
    }
    let answer = client.ask(&launcher.request("/hello.lua").last());
    assert_eq!(answer.stdout, b"Content-Type: text/plain\r\n\r\nHello you");
    assert!(client.is_closed());
}

#[test]
fn requests_share_a_connection_and_overtake_each_other() {
    let launcher = Launcher::start(&["--threads", "1"], &[SLOW, ECHO]);
    let mut client = launcher.connect();
    client.send(&launcher.request("/slow.lua").bytes(7));
    for id in [300, 65_535, 1] {
        client.send(&launcher.request("/echo.lua").post(format!("\n{id}").as_bytes()).bytes(id));
    }
    for _ in 0..3 {
        let Heard::Ended(id, answer) = client.hear() else { panic!("no answer") };
        assert!(answer.stdout.ends_with(format!("\n{id}").as_bytes()), "{answer:?}");
    }
    let Heard::Ended(7, answer) = client.hear() else { panic!("no answer to the slow one") };
    assert_eq!(answer.body(), "slept");
}

#[test]
fn values_are_answered_and_what_is_unknown_is_answered_so() {
    let launcher = Launcher::start(&[], &[HELLO]);
    let mut client = launcher.connect();
    let mut question = Vec::new();
    encode::get_values(&mut question, ValuesQuery::ALL);
    client.send(&question);
    let Heard::Values(Values { max_conns, max_reqs, mpxs_conns }) = client.hear() else {
        panic!("no values")
    };
    assert_eq!(mpxs_conns, Some(true));
    assert!(max_conns > Some(100) && max_reqs > Some(100), "{max_conns:?} {max_reqs:?}");
    client.send(&[1, 99, 0, 0, 0, 0, 0, 0]);
    assert_eq!(client.hear(), Heard::UnknownType(99));
    let mut unknown_role = launcher.request("/hello.lua");
    unknown_role.role = Role::Unknown(77);
    client.send(&unknown_role.bytes(1));
    let Heard::Ended(1, answer) = client.hear() else { panic!("no answer") };
    assert_eq!(answer.end, Some((0, ProtocolStatus::UnknownRole)));
}

#[test]
fn a_request_that_is_aborted_ends_and_its_script_with_it() {
    // The script waits for the file `go`, and then leaves the file `mark`. An aborted one leaves no
    // file.
    let marks = format!(
        "{BEGINS} local root = os.getenv('DOCUMENT_ROOT') repeat tokamak.sleep(0.01) until \
            io.open(root .. '/go') io.open(root .. '/mark', 'w'):close()"
    );
    let launcher = Launcher::start(&[], &[("marks.lua", &marks), HELLO]);
    let mut client = launcher.connect();
    client.send(&launcher.request("/marks.lua").bytes(1));
    launcher.runs();
    let mut abort = Vec::new();
    encode::abort(&mut abort, 1);
    client.send(&abort);
    let Heard::Ended(1, answer) = client.hear() else { panic!("no end") };
    assert_eq!((answer.stdout.len(), answer.end), (0, Some((0, ProtocolStatus::Complete))));
    assert!(client.ask(&launcher.request("/hello.lua")).body().starts_with("Hello"));
    // A client that goes away is the same.
    let mut other = launcher.connect();
    other.send(&launcher.request("/marks.lua").bytes(1));
    launcher.runs();
    drop(other);
    // The server reads the end of that connection before it reads this request, and aborts the
    // script, which looks for the file every 10 ms: a script that went on would find it at once.
    assert!(client.ask(&launcher.request("/hello.lua")).body().starts_with("Hello"));
    std::thread::sleep(Duration::from_millis(200));
    fs::write(script(&launcher, "go"), "").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!script(&launcher, "mark").exists(), "the script was continued");
}

#[test]
fn bodies_of_any_length_arrive_and_leave() {
    let count =
        "local n, piece = 0 repeat piece = io.read(10000) n = n + #(piece or '') until not piece
                 print('A: b\\r\\n\\r\\n', n)";
    let large = "print('A: b\\r\\n\\r\\n') for n = 1, 3000 do io.write(('x'):rep(9999), '\\n') end";
    let launcher = Launcher::start(&[], &[ECHO, ("count.lua", count), ("large.lua", large)]);
    let mut client = launcher.connect();
    for length in [0, 1, 65_535, 65_536, 3_000_000] {
        let body = numbered(length);
        let answer = client.ask(&launcher.request("/echo.lua").post(&body));
        assert!(
            answer.stdout == [&b"Content-Type: text/plain\n\n"[..], &body].concat(),
            "{length}"
        );
    }
    let body = numbered(40_000_000);
    assert_eq!(client.ask(&launcher.request("/count.lua").post(&body)).body(), "40000000");
    // More than the scripts' memory is printed, and a slow reader holds nobody up.
    client.slow_down(Duration::from_millis(1));
    client.send(&launcher.request("/large.lua").bytes(1));
    client.wait_for_answer();
    assert!(launcher.answer("/echo.lua").starts_with("Content-Type"));
    assert_eq!(client.answer().body().len(), 30_000_000);
}

#[test]
fn parameters_are_the_scripts_variables() {
    let text = "print('A: b\\r\\n\\r\\n', os.getenv('QUERY_STRING'), os.getenv('HTTP_X'), \
            os.getenv('HOME') or '-',
                      os.getenv('FCGI_ROLE'))";
    let launcher = Launcher::start(&[], &[("vars.lua", text)]);
    let request = launcher.request("/vars.lua?a=b").param("HTTP_X", "{x}");
    assert_eq!(launcher.connect().ask(&request).body(), "a=b{x}-RESPONDER");
}

#[test]
fn an_authorizer_is_a_script_like_any_other() {
    let text = "if os.getenv('HTTP_KEY') == 'good' then print('Status: 200 OK\\r\\nVariable-USER: \
            ada\\r\\n\\r\\n')
                else print('Status: 403 Forbidden\\r\\n\\r\\nno') end";
    let launcher = Launcher::start(&[], &[("auth.lua", text)]);
    let mut request = launcher.request("/auth.lua");
    request.role = Role::Authorizer;
    assert!(launcher.connect().ask(&request).head().starts_with("Status: 403"));
    let answer = launcher.connect().ask(&request.param("HTTP_KEY", "good"));
    assert_eq!(answer.head(), "Status: 200 OK\r\nVariable-USER: ada");
}

#[test]
fn each_way_of_having_no_script_has_its_status() {
    let launcher = Launcher::start(&[], &[HELLO]);
    fs::create_dir(script(&launcher, "folder")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", script(&launcher, "outside.lua")).unwrap();
    for (target, status) in [
        ("/hello.lua", 200),
        ("/no.lua", 404),
        ("/hello.lua/below", 404),
        ("/folder", 400),
        ("/", 400),
        ("/outside.lua", 403),
        ("/../socket", 403),
    ] {
        assert_eq!(launcher.status(target), status, "{target}");
    }
    let bare = |name: &str, value: &str| {
        let mut request = launcher.request("/hello.lua");
        request.params.retain(|(name, _)| name != "SCRIPT_FILENAME");
        launcher.connect().ask(&request.param(name, value)).head()
    };
    assert!(bare("DOCUMENT_ROOT", "").starts_with("Status: 404"), "/hello.lua is nothing");
    assert!(bare("X", "y").starts_with("Content-Type: text/plain"), "root and name are as good");
    assert!(bare("SCRIPT_FILENAME", "hello.lua").starts_with("Status: 400"));
    launcher.log_line(&["lua-fcgi", "there is no such script", "status=404", "url=/no.lua"]);
}

#[test]
fn changes_are_seen_and_broken_ones_change_nothing() {
    let launcher = Launcher::start(&[], &[HELLO]);
    let file = script(&launcher, "hello.lua");
    let body = || launcher.connect().ask(&launcher.request("/hello.lua")).body();
    assert_eq!(body(), "Hello you");
    fs::write(&file, "print('A: b\\r\\n\\r\\nother')").unwrap();
    assert!(eventually(PATIENCE, || (body() == "other").then_some(())).is_some());
    fs::write(&file, "print('A: b\\r\\n\\r\\nbroken'").unwrap();
    let said = eventually(PATIENCE, || {
        assert_eq!(body(), "other");
        launcher.log().contains("its last good version stays").then_some(())
    });
    assert!(said.is_some(), "{}", launcher.log());
    launcher.log_line(&["hello.lua:", "near"]);
    fs::remove_file(&file).unwrap();
    assert!(
        eventually(PATIENCE, || (launcher.status("/hello.lua") == 404).then_some(())).is_some()
    );
}

#[test]
fn scripts_share_their_globals_in_each_thread() {
    let count =
        "_G.n = (_G.n or 0) + 1 mine = (mine or 0) + 1 print('A: b\\r\\n\\r\\n', n, ' ', mine)";
    let shown = "print('A: b\\r\\n\\r\\n', n, ' ', tostring(mine), ' ', magnet.conns_served)";
    let launcher =
        Launcher::start(&["--threads", "1"], &[("count.lua", count), ("shown.lua", shown)]);
    for nth in 1..=3 {
        assert!(launcher.answer("/count.lua").ends_with(&format!("\r\n{nth} 1")));
    }
    assert!(launcher.answer("/shown.lua").ends_with("\r\n3 nil 4"));
}

#[test]
fn threads_answer_side_by_side_and_share_dictionaries() {
    let count = "local n = tokamak.shared.hits:incr('n', 1, 0) print('A: b\\r\\n\\r\\n', n)";
    let options = ["--threads", "4", "--shared", "hits=1MiB"];
    let launcher = Launcher::start(&options, &[("count.lua", count)]);
    in_parallel(64, |_| {
        let mut client = Client::unix(&launcher.socket());
        for _ in 0..5 {
            client.ask(&launcher.request("/count.lua"));
        }
    });
    assert!(launcher.answer("/count.lua").ends_with("\r\n321"));
}

#[test]
fn what_is_printed_before_a_pause_leaves_before_it() {
    let text = "print('A: b\\r\\n\\r\\nfirst') tokamak.sleep(1) print('second')";
    let launcher = Launcher::start(&[], &[("pause.lua", text)]);
    let mut client = launcher.connect();
    client.send(&launcher.request("/pause.lua").bytes(1));
    client.wait_for_answer(); // and not for its end
    assert_eq!(client.answer().body(), "firstsecond");
}

#[test]
fn what_scripts_complain_of_reaches_the_web_server() {
    let text = "io.stderr:write('careful', 1, '\\n') print('A: b\\r\\n\\r\\nx')";
    let launcher = Launcher::start(&[], &[("complain.lua", text)]);
    let answer = launcher.connect().ask(&launcher.request("/complain.lua"));
    assert_eq!((answer.stderr, answer.stdout), (b"careful1\n".to_vec(), b"A: b\r\n\r\nx".to_vec()));
}

#[test]
fn scripts_call_others_without_holding_anybody_up() {
    let read = "local text = assert(tokamak.file.read(os.getenv('SCRIPT_FILENAME')))
                print('A: b\\r\\n\\r\\n', #text, ' ', (select(2, pcall(tokamak.fetch, '/'))))";
    let launcher = Launcher::start(&[], &[("read.lua", read)]);
    let answer = launcher.answer("/read.lua");
    assert!(answer.contains(&format!("\r\n\r\n{} ", read.len())), "{answer}");
    assert!(!answer.contains("table:"), "there is nothing to fetch: {answer}");
}
