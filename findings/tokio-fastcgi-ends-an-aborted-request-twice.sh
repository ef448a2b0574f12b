#!/usr/bin/env bash
# tokio-fastcgi ends an aborted request twice, and gives a page that nobody waits for in between.
#
# Software: the crate tokio-fastcgi 1.3.0, a FastCGI server for asynchronous programs in Rust.
#
# A server whose visitor went away sends FCGI_ABORT_REQUEST. The application ends the request with
# FCGI_END_REQUEST, after which the server may give its number to another request.
#
# Seen: tokio-fastcgi sends FCGI_END_REQUEST (FCGI_REQUEST_COMPLETE, exit status 0) at once, while
# the application goes on. When that is done, its page and a second FCGI_END_REQUEST follow under
# the same number. In the run below the server has used the number again, for /second, and the
# records of /first come before those of /second with nothing to tell them apart. So numbers of
# aborted requests must not be used again on a connection to tokio-fastcgi.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export folder
mkdir "$folder/src"
cat >"$folder/Cargo.toml" <<'TOML'
[package]
name = "application"
version = "0.1.0"
edition = "2021"

[dependencies]
tokio-fastcgi = "=1.3.0"
tokio = { version = "=1.47.1", features = ["io-util", "macros", "net", "rt", "time"] }
TOML
cat >"$folder/src/main.rs" <<'RUST'
// Answers each request after a second with its path.
use std::time::Duration;
use tokio_fastcgi::{RequestResult, Requests};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let (client, _) = listener.accept().await.unwrap();
    let mut requests = Requests::from_split_socket(client.into_split(), 1, 10);
    while let Ok(Some(request)) = requests.next().await {
        tokio::spawn(async move {
            let answer = |request: std::sync::Arc<tokio_fastcgi::Request<_>>| async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let path = request.get_str_param("path").unwrap_or("?");
                let page = format!("Content-Type: text/plain\r\n\r\n{path}");
                request.get_stdout().write(page.as_bytes()).await.unwrap();
                RequestResult::Complete(0)
            };
            let _ = request.process(answer).await;
        });
    }
}
RUST
export CARGO_TARGET_DIR=$folder/target
timeout 500 cargo build --quiet --manifest-path "$folder/Cargo.toml" \
    >"$folder/log" 2>&1 || { tail -n 20 "$folder/log" >&2; exit 2; }
timeout 60 python3 - <<'PYTHON'
import os, socket, struct, subprocess, sys, time

folder = os.environ["folder"]
NAMES = {3: "END_REQUEST", 6: "STDOUT", 7: "STDERR", 10: "GET_VALUES_RESULT", 11: "UNKNOWN_TYPE"}


def record(kind, request, content=b""):
    return struct.pack("!BBHHBB", 1, kind, request, len(content), 0, 0) + content


def pairs(**values):
    """Names and values of less than 128 bytes, as FastCGI writes them."""
    return b"".join(
        bytes([len(name), len(value)]) + name.encode() + value.encode()
        for name, value in values.items())


def records(client, seconds=5):
    """The records that arrive until the peer closes or is silent for so long."""
    client.settimeout(seconds)
    stream, found = client.makefile("rb"), []
    try:
        while header := stream.read(8):
            _, kind, request, length, padding, _ = struct.unpack("!BBHHBB", header)
            found.append((NAMES.get(kind, kind), request, stream.read(length)))
            stream.read(padding)
        found.append("closed")
    except TimeoutError:
        found.append("silence")
    return found


def request(number, path):
    return (
        record(1, number, b"\0\1\1\0\0\0\0\0")
        + record(4, number, pairs(path=path)) + record(4, number) + record(5, number))


application = subprocess.Popen(
    [f"{folder}/target/debug/application"], stdout=subprocess.PIPE)
try:
    port = int(application.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request(1, "/first"))
        time.sleep(0.3)
        client.sendall(record(2, 1))  # FCGI_ABORT_REQUEST
        client.settimeout(5)
        ended = client.recv(16, socket.MSG_WAITALL)
        client.sendall(request(1, "/second"))
        found = records(client, seconds=3)
finally:
    application.kill()
    application.wait()
print(ended, *found, sep="\n")
end = ("END_REQUEST", 1, bytes(8))


def page(path):
    head = b"Content-Type: text/plain\r\n\r\n"
    return [("STDOUT", 1, head + path), ("STDOUT", 1, b""), ("STDERR", 1, b""), end]


changed = ended != record(3, 1, bytes(8)) or found != [
    *page(b"/first"), *page(b"/second"), "silence"]
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
