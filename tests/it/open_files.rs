//! A server that may have few files open: what exists is never "not found", connections are turned
//! away before files cannot be opened, and the log names the limit.

use std::fs::{self, File};
use std::os::unix::fs::symlink;

use crate::harness::{Connection, Kind, Server, Setup, get};
use crate::http2::client::Raw;
use crate::metrics;

const FILES: u64 = 256;

const HEADERS: u8 = 1;

/// `:status` 200 and 404 as HPACK writes them.
const OK: u8 = 0x88;
const NOT_FOUND: u8 = 0x8d;

fn start(kind: Kind) -> Server {
    metrics::start(Setup::new(kind).workers(1).line("loops = 1").open_files(FILES))
}

/// The status of a page on a kept connection; `None` if it was closed.
fn status(connection: &mut Connection, target: &str) -> Option<u16> {
    connection.try_send(get(target).bytes()).ok()?;
    connection.try_response("GET").ok().map(|response| response.status())
}

#[test]
fn kept_connections_leave_room_for_files() {
    let server = start(Kind::Classic);
    fs::create_dir(server.places.root().join("folder")).unwrap();
    fs::write(server.places.root().join("folder/index.html"), "index").unwrap();
    fs::write(server.places.root().join("file.txt"), "x".repeat(100_000)).unwrap();
    server.log_line(&[
        "WARN",
        "limits.connections = 10000 cannot be kept: a process may have 256 open files \
            (RLIMIT_NOFILE)",
    ]);
    let mut kept: Vec<_> = (0..FILES).map(|_| server.connect()).collect();
    let mut let_in = 0;
    for connection in &mut kept {
        match status(connection, "/hello.php") {
            Some(200) => let_in += 1,
            Some(503) | None => {}
            Some(other) => panic!("{other}"),
        }
    }
    assert!((100..240).contains(&let_in), "{let_in} of {FILES} connections");
    server.log_line(&["connection refused: too many connections (RLIMIT_NOFILE, of open files)"]);
    for connection in &mut kept[..10] {
        for target in ["/hello.php", "/folder/", "/file.txt"] {
            assert_eq!(status(connection, target), Some(200), "{target}");
        }
    }
    drop(kept);
    metrics::samples_when(&server, "tokamak_connections", 0.0);
    server.get("/file.txt").expect(200);
}

/// Each stream of a connection may have a file open: then there is none left for further ones.
#[test]
fn a_file_for_which_there_is_no_descriptor_is_not_missing() {
    let server = start(Kind::Classic);
    File::create(server.places.root().join("large.bin")).unwrap().set_len(1 << 30).unwrap();
    fs::create_dir(server.places.root().join("folder")).unwrap();
    fs::write(server.places.root().join("folder/index.html"), "index").unwrap();
    let no_window = [0, 4, 0, 0, 0, 0];
    let (mut found, mut refused) = (0, 0);
    let mut clients: Vec<_> = (0..3).map(|_| Raw::open(&server, &no_window)).collect();
    for raw in &mut clients {
        for stream in (1..200).step_by(2) {
            raw.get(stream, "/large.bin");
            let (_, _, answered, head) = raw.frame_of(&[HEADERS]);
            assert_eq!(answered, stream);
            assert_ne!(head[0], NOT_FOUND);
            found += usize::from(head[0] == OK);
            refused += usize::from(head[0] != OK);
        }
    }
    assert!(found > 100 && refused > 0, "{found} and {refused}");
    let named = "Too many open files (os error 24); a process may have 256 (RLIMIT_NOFILE)";
    server.log_line(&["large.bin cannot be opened: ", named, "status=503"]);
    let raw = clients.last_mut().unwrap();
    for (number, target) in ["/folder/", "/folder", "/large.bin", "/fresh.php"].iter().enumerate() {
        fs::write(server.places.root().join("fresh.php"), "<?php echo 1;").unwrap();
        raw.get(201 + 2 * number as u32, target);
        let (_, _, _, head) = raw.frame_of(&[HEADERS]);
        assert!(head[0] != NOT_FOUND && head[0] != OK, "{target}: {head:?}");
    }
    drop(clients);
    metrics::samples_when(&server, "tokamak_connections", 0.0);
    server.get("/folder/").expect(200);
    server.get("/fresh.php").expect(200);
}

/// What the error says about the file is what the client is told, whoever opens it.
#[test]
fn other_errors_have_their_status() {
    let server = start(Kind::Classic);
    let root = server.places.root();
    symlink("loop", root.join("loop")).unwrap();
    symlink("loop.php", root.join("loop.php")).unwrap();
    fs::write(root.join("file.txt"), "x").unwrap();
    let long = format!("/{}", "x".repeat(300));
    for (target, status) in [
        ("/loop", 403),
        ("/loop.php", 403),
        ("/none.txt", 404),
        ("/none.php", 404),
        ("/file.txt/below", 404),
        (&long, 404),
    ] {
        assert_eq!(server.get(target).status(), status, "{target}");
    }
}
