//! Which response comes first on a line that is slower than the server (RFC 9218).

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Buf;
use http::Request;
use tokio::task::JoinHandle;

use super::client::{Connection, Target, request, until};
use super::server;
use crate::harness::{Kind, numbered};
use crate::http2::client::runtime;
use crate::tls::Secured;

const IMAGE: usize = 2_000_000;
const SCRIPT: usize = 300_000;

/// Bytes of images that may come before the script's end, if that goes first: what is on its way
/// when it is asked for, and what the server holds.
const ON_ITS_WAY: usize = 1_200_000;

fn with_files() -> (Secured, Target) {
    let (secured, target) = server(Kind::Classic);
    let root = secured.server.places.root();
    fs::write(root.join("image.bin"), numbered(IMAGE)).unwrap();
    fs::write(root.join("script.js"), numbered(SCRIPT)).unwrap();
    (secured, target.with_window(64 * 1024))
}

fn asking(path: &str, priority: &str) -> Request<()> {
    let mut asked = request("GET", path);
    asked.headers_mut().insert("priority", priority.parse().unwrap());
    asked
}

/// Fetches it, and counts what comes. The result is how much of images had come at its end.
fn fetch(
    connection: &Connection,
    asked: Request<()>,
    images: &Arc<AtomicUsize>,
) -> JoinHandle<usize> {
    let (mut client, images) = (connection.client.clone(), images.clone());
    let is_image = asked.uri().path() == "/image.bin";
    tokio::spawn(async move {
        let mut stream = client.send_request(asked).await.unwrap();
        stream.finish().await.unwrap();
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        while let Some(mut piece) = stream.recv_data().await.unwrap() {
            let count = piece.remaining();
            piece.advance(count);
            if is_image {
                images.fetch_add(count, Ordering::Relaxed);
            }
        }
        images.load(Ordering::Relaxed)
    })
}

/// How much of four images comes before the end of a script that is asked for after them.
fn before_script(priority: &str) -> usize {
    let (_secured, target) = with_files();
    runtime().block_on(async {
        let connection = target.connect().await.unwrap();
        let images = Arc::new(AtomicUsize::new(0));
        let all: Vec<_> =
            (0..4).map(|_| fetch(&connection, asking("/image.bin", "u=5, i"), &images)).collect();
        until(|| (images.load(Ordering::Relaxed) > 0).then_some(())).await;
        let begun = images.load(Ordering::Relaxed);
        let script = fetch(&connection, asking("/script.js", priority), &images);
        let ended = script.await.unwrap();
        for image in all {
            image.await.unwrap();
        }
        ended - begun
    })
}

#[test]
fn what_is_urgent_overtakes_what_is_not() {
    let first = before_script("u=1");
    assert!(first < ON_ITS_WAY, "{first} bytes of images came before the script");
    let last = before_script("u=7");
    assert!(last > 2 * ON_ITS_WAY, "{last} bytes of images came before the script");
}
