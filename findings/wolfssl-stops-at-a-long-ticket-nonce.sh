#!/usr/bin/env bash
# wolfSSL gives up a TLS 1.3 connection when a session ticket with a nonce of 32 bytes arrives.
#
# Software: wolfSSL 5.5.4 of Debian 12 (libwolfssl35 and libwolfssl-dev 5.5.4-2+deb12u3) as client,
# and the crate rustls 0.23.46 (with ring) as server.
#
# RFC 8446, section 4.6.1: the nonce of a NewSessionTicket has 0 to 255 bytes. OpenSSL sends 8;
# rustls sends 32 random ones.
#
# Seen: the handshake with rustls is good and the client can send its request. When it reads the
# answer, the tickets come first, and the read fails:
#     -425, "The security parameter is invalid"
# The server gets the alert illegal_parameter. No data is read, though the client did not ask to
# resume a session. With `send_tls13_tickets = 0` in rustls, and with OpenSSL's server and its
# tickets, the same client reads the page. A server that wants to serve this wolfSSL has to keep the
# nonce short or send no tickets.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Unpacks Debian packages of these versions, and what they need that is not installed, in $root.
root=$folder/root
debian() {
    mkdir -p "$folder/archives/partial"
    timeout 300 apt-get install --download-only --reinstall --yes --no-install-recommends \
        --allow-downgrades -o Debug::NoLocking=1 -o "Dir::Cache::archives=$folder/archives" \
        "$@" >"$folder/log" 2>&1 ||
        { echo "these packages cannot be had: $*" >&2; exit 2; }
    for package in "$folder"/archives/*.deb; do dpkg -x "$package" "$root"; done
}

debian libwolfssl35=5.5.4-2+deb12u3 libwolfssl-dev=5.5.4-2+deb12u3
library=$root/usr/lib/x86_64-linux-gnu
cd "$folder"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
    -subj /CN=localhost -keyout key.pem -out certificate.pem 2>log
cat >client.c <<'C'
// Connects to the port on 127.0.0.1, sends a line and prints what it reads.
#include <wolfssl/options.h>
#include <wolfssl/ssl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int main(int count, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    char buffer[100];

    if (count != 2)
        return 1;
    address.sin_port = htons(atoi(arguments[1]));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(connection, (struct sockaddr *)&address, sizeof address))
        return 1;
    wolfSSL_Init();
    WOLFSSL_CTX *context = wolfSSL_CTX_new(wolfTLSv1_3_client_method());
    if (wolfSSL_CTX_load_verify_locations(context, "certificate.pem", NULL) != SSL_SUCCESS)
        return 1;
    WOLFSSL *tls = wolfSSL_new(context);
    wolfSSL_set_fd(tls, connection);
    if (wolfSSL_connect(tls) != SSL_SUCCESS) {
        printf("handshake: %d\n", wolfSSL_get_error(tls, 0));
        return 0;
    }
    wolfSSL_write(tls, "page\n", 5);
    int length = wolfSSL_read(tls, buffer, sizeof buffer);
    if (length > 0) {
        printf("page: %.*s\n", length, buffer);
    } else {
        int error = wolfSSL_get_error(tls, length);
        printf("read: %d, %s\n", error, wolfSSL_ERR_error_string(error, buffer));
    }
    return 0;
}
C
cc -o client -I "$root/usr/include" client.c -L "$library" -Wl,-rpath,"$library" -lwolfssl
mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "server"
version = "0.1.0"
edition = "2021"

[dependencies]
rustls = { version = "=0.23.46", default-features = false, features = ["ring", "std"] }
TOML
cat >src/main.rs <<'RUST'
// Sends as many tickets as the argument says, and gives each line back.
use rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use std::io::{Read, Write};
use std::sync::Arc;

fn main() {
    let certificate = CertificateDer::from_pem_file("certificate.pem").unwrap();
    let key = PrivateKeyDer::from_pem_file("key.pem").unwrap();
    let mut configuration = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    configuration.send_tls13_tickets = std::env::args().nth(1).unwrap().parse().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let (mut client, _) = listener.accept().unwrap();
    let mut connection = rustls::ServerConnection::new(Arc::new(configuration)).unwrap();
    let mut stream = rustls::Stream::new(&mut connection, &mut client);
    match echo(&mut stream) {
        Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => println!("{error}"),
        _ => println!("closed"),
    }
}

fn echo(stream: &mut (impl Read + Write)) -> std::io::Result<()> {
    let mut line = [0; 5];
    stream.read_exact(&mut line)?;
    stream.write_all(&line)?;
    stream.read_exact(&mut line)
}
RUST
CARGO_TARGET_DIR=$folder/target timeout 500 cargo build --quiet >log 2>&1 ||
    { tail -n 20 log >&2; exit 2; }
timeout 60 python3 - <<'PYTHON'
import socket, subprocess, sys, time


def client(port):
    return subprocess.run(
        ["./client", str(port)], capture_output=True, text=True, timeout=20).stdout.strip()


def rustls(tickets):
    server = subprocess.Popen(
        ["target/debug/server", str(tickets)], stdout=subprocess.PIPE, text=True)
    found = client(server.stdout.readline().strip()), server.stdout.readline().strip()
    server.wait(timeout=20)
    return found


def openssl():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", "certificate.pem",
         "-key", "key.pem", "-tls1_3", "-num_tickets", "2", "-rev", "-quiet"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        return client(port)
    finally:
        server.kill()
        server.wait()


without, with_tickets, other = rustls(0), rustls(1), openssl()
print(f"rustls without tickets: {without}")
print(f"rustls with a ticket: {with_tickets}")
print(f"OpenSSL with tickets: {other}")
changed = (
    without != ("page: page", "closed")
    or with_tickets != (
        "read: -425, The security parameter is invalid",
        "received fatal alert: IllegalParameter")
    or other != "page: egap")
sys.exit("this is not what was recorded" if changed else 0)
PYTHON
