//! Clients that read slowly hold no worker and no connection to an application, however large the
//! page: it goes to a temporary file, as far as there is room.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::{Connection, Kind, Server, Setup, get, numbered, program};
use crate::http2::client::Raw;
use crate::metrics;
use crate::operate::{configuration, reload};

/// More than memory, the kernel and a ring hold.
const PAGE: usize = 12_000_000;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;

/// Of a client that takes nothing until it says so.
const NO_WINDOW: [u8; 6] = [0, 4, 0, 0, 0, 0];

const SPOOLED: &str = "tokamak_spooled_bytes{site=\"localhost\"}";

mod hold_nobody {
    crate::harness::of_kinds!(
        super::slow_readers_do_not_hold_workers;
        classic: Classic, worker: Worker, concurrent: Async, sealed: Sealed, fastcgi: Fastcgi
    );
}

fn spooled(server: &Server) -> u64 {
    metrics::samples(server)[SPOOLED] as u64
}

fn page(bytes: usize) -> String {
    format!("/large.php?bytes={bytes}")
}

/// A client that has read the head of a large page and reads no more.
fn slow_reader(server: &Server, bytes: usize) -> Connection {
    let mut reader = server.connect();
    reader.send(get(&page(bytes)).bytes());
    assert_eq!(reader.head().unwrap().status, 200);
    reader
}

/// The rest of its page: whether it is as it was written.
fn read_on(mut reader: Connection, bytes: usize) {
    // The head has been read: what is left are chunks, as of a response with another head.
    reader.unread(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
    assert!(reader.response().body == numbered(bytes), "not the page");
}

/// Four workers, four clients that take nothing of their pages over either protocol: others are
/// answered, and the slow ones get all of it in the end.
fn slow_readers_do_not_hold_workers(kind: Kind) {
    let setup = Setup::new(kind).workers(4).one_at_a_time().line("limits.buffer = \"64KiB\"");
    let server = metrics::start(setup);
    let mut readers: Vec<_> = (0..4).map(|_| slow_reader(&server, PAGE)).collect();
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
    let mut raw = Raw::open(&server, &NO_WINDOW);
    for stream in [1, 3, 5, 7] {
        raw.get(stream, &page(PAGE));
        assert_eq!(raw.frame_of(&[HEADERS]).2, stream);
    }
    assert_eq!(server.text("/hello.php"), "Hello from PHP");
    assert!(spooled(&server) > 3 * PAGE as u64, "{} bytes in files", spooled(&server));

    // Who leaves gives its space back, and so does who has read all.
    readers.truncate(1);
    readers.into_iter().for_each(|reader| read_on(reader, PAGE));
    raw.frame(RST_STREAM, 0, 5, &[0, 0, 0, 8]);
    raw.frame(RST_STREAM, 0, 7, &[0, 0, 0, 8]);
    for (window, stream) in [(0x7fff_0000_u32, 0), (PAGE as u32, 1), (PAGE as u32, 3)] {
        raw.frame(WINDOW_UPDATE, 0, stream, &window.to_be_bytes());
    }
    let (mut first, mut open) = (Vec::new(), 2);
    while open > 0 {
        let (_, flags, stream, payload) = raw.frame_of(&[DATA]);
        if stream == 1 {
            first.extend(payload);
        }
        open -= i32::from(flags & 1);
    }
    assert!(first == numbered(PAGE), "not the page");
    metrics::samples_when(&server, SPOOLED, 0.0);
}

/// One worker, of which a slow client may use so much more; returns the server and the client.
fn with_a_slow_reader(kind: Kind, lines: &[&str], site_lines: &[&str]) -> (Server, Connection) {
    let mut setup = Setup::new(kind).workers(1).line("limits.buffer = \"64KiB\"");
    setup = lines.iter().fold(setup, |setup, line| setup.line(line));
    setup = site_lines.iter().fold(setup, |setup, line| setup.site_line(line));
    let server = metrics::start(setup);
    let reader = slow_reader(&server, PAGE);
    (server, reader)
}

/// Beyond the limits of files workers wait, as in memory, and the log says why.
#[test]
fn files_have_limits() {
    let busy = "pool.queue_timeout = \"300ms\"";
    for (lines, site_lines, reason) in [
        (&[][..], &["spool = \"1MiB\"", busy][..], "the site's files have the size of site.spool"),
        (
            &["limits.spool = \"1MiB\""],
            &[busy],
            "the files of all sites have the size of limits.spool",
        ),
        (&[], &["spool = 0", busy], ""),
    ] {
        let (server, reader) = with_a_slow_reader(Kind::Classic, lines, site_lines);
        assert_eq!(server.get("/hello.php").status(), 503, "{reason}");
        assert!(spooled(&server) <= 1 << 20);
        if reason.is_empty() {
            assert!(!server.log().contains("slow clients"), "{}", server.log());
        } else {
            server.log_line(&[
                "WARN [localhost] responses wait in workers for slow clients: ",
                reason,
            ]);
        }
        read_on(reader, PAGE);
        server.get("/hello.php").expect(200);
        metrics::samples_when(&server, SPOOLED, 0.0);
    }
    let (server, reader) = with_a_slow_reader(Kind::Fastcgi, &["limits.spool = \"1MiB\""], &[]);
    server.log_line(&["responses wait in workers for slow clients: "]);
    read_on(reader, PAGE);
    server.get("/hello.php").expect(200);
    metrics::samples_when(&server, SPOOLED, 0.0);
}

/// A disk of this many bytes; `None` if this user may not mount. It is taken away at the end.
struct Disk(PathBuf);

impl Disk {
    fn at(path: &Path, size: &str) -> Option<Disk> {
        fs::create_dir(path).unwrap();
        let options = format!("size={size},mode=1777");
        let mut mount = Command::new("mount");
        let mounted =
            mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output().unwrap();
        if mounted.status.success() {
            return Some(Disk(path.to_owned()));
        }
        let why = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
        eprintln!("not tested: a small disk cannot be mounted: {why}");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a server that the test could not end may still have files there.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// With a full disk the worker waits, and nothing of the page is lost.
#[test]
fn a_disk_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let Some(_disk) = Disk::at(&path, "2m") else { return };
    for kind in [Kind::Classic, Kind::Fastcgi] {
        let setup = Setup::new(kind).workers(2).line("limits.buffer = \"64KiB\"");
        let setup = match kind {
            Kind::Classic => setup.line(&format!("temp_dir = \"{}\"", path.display())),
            _ => setup.server_env("TMPDIR", path.to_str().unwrap()),
        };
        let server = metrics::start(setup);
        let reader = slow_reader(&server, PAGE);
        let why = "cannot be written: No space left on device";
        server.log_line(&["responses wait in workers for slow clients: ", why]);
        assert_eq!(server.text("/hello.php"), "Hello from PHP");
        read_on(reader, PAGE);
        metrics::samples_when(&server, SPOOLED, 0.0);
    }
}

/// `check` and a reload name what is wrong with the folder of temporary files.
#[test]
fn the_folder_of_files_cannot_be_used() {
    let server = Setup::new(Kind::Classic).start();
    let configuration = configuration(&server);
    let text = fs::read_to_string(&configuration).unwrap();
    let with = |folder: &Path| {
        fs::write(&configuration, format!("temp_dir = \"{}\"\n{text}", folder.display())).unwrap();
        let mut check = Command::new(program());
        let check = check.args(["check", "--config"]).arg(&configuration).output().unwrap();
        (String::from_utf8(check.stderr).unwrap(), reload(&server).unwrap_err())
    };
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    let (checked, reloaded) = with(&gone);
    let expected = format!("tokamak.toml:1: temp_dir: {} is not a directory", gone.display());
    assert!(checked.contains(&expected), "{checked}");
    assert!(reloaded.contains(&expected), "{reloaded}");

    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let (checked, reloaded) = with(folder.path());
    assert!(checked.contains("temp_dir: "), "{checked}");
    let expected = format!("temp_dir: no file can be made in {}: ", folder.path().display());
    assert!(reloaded.contains(&expected), "{reloaded}");
    server.get("/hello.php").expect(200);
}

/// Takes so many bytes of a response after each pause, until it ends or the time is over. Returns
/// whether it was reset.
fn drip(server: &Server, bytes: u32, pause: Duration, most: Duration) -> bool {
    let mut raw = Raw::open(server, &NO_WINDOW);
    raw.frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
    raw.get(1, &page(2_000_000));
    raw.frame_of(&[HEADERS]);
    let begun = std::time::Instant::now();
    while begun.elapsed() < most {
        std::thread::sleep(pause);
        if !raw.frame(WINDOW_UPDATE, 0, 1, &bytes.to_be_bytes()) {
            return true;
        }
        if raw.frame_of(&[DATA, RST_STREAM]).0 == RST_STREAM {
            return true;
        }
    }
    false
}

/// Single bytes do not get around `timeouts.send`; who takes what is asked for may go on.
#[test]
fn responses_have_a_lowest_rate() {
    let lines = ["timeouts.send = \"3s\"", "limits.send_rate = 100"];
    let server = lines.iter().fold(Setup::new(Kind::Classic), |setup, line| setup.line(line));
    let server = server.start();
    let (pause, most) = (Duration::from_millis(200), Duration::from_secs(7));
    std::thread::scope(|scope| {
        let quick = scope.spawn(|| drip(&server, 2000, pause, most));
        assert!(drip(&server, 1, pause, Duration::from_secs(60)), "it was not ended");
        assert!(!quick.join().unwrap(), "it has taken enough");
    });
}

/// Without a rate each byte is enough.
#[test]
fn the_lowest_rate_may_be_none() {
    let lines = ["timeouts.send = \"2s\"", "limits.send_rate = 0"];
    let server = lines.iter().fold(Setup::new(Kind::Classic), |setup, line| setup.line(line));
    let server = server.start();
    assert!(!drip(&server, 1, Duration::from_millis(200), Duration::from_secs(4)));
}
