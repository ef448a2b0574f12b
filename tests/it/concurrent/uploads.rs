//! Uploads to one worker of async mode at the same time, some of which break off.

use std::sync::Mutex;

use crate::harness::{Kind, Multipart, Request, Setup, in_parallel};
use crate::operate::{status, status_when, worker_pids};

const UPLOADS: usize = 100;

/// More than the front sends ahead of a worker that has room, so that PHP waits for the rest.
const LENGTH: usize = 300_000;

#[test]
fn uploads_beside_each_other_come_whole_and_touch_no_file_of_their_name() {
    let server = Setup::new(Kind::Async).site("sites/uploads").workers(1).start();
    let before =
        worker_pids(&status_when(&server, "a worker", |status| status["pools"][0]["idle"] == 1));
    let wrong = Mutex::new(Vec::new());
    in_parallel(UPLOADS, |n| {
        let part = format!("{n}.");
        let content = part.repeat(LENGTH / part.len());
        let request = Multipart::default()
            .field("part", &part)
            .file("f", "kept.bin", "text/x", content.as_bytes())
            .post("/");
        let mut client = server.connect();
        if n % 8 == 0 {
            let bytes = request.bytes();
            client.send(&bytes[..bytes.len() * (1 + n / 8 % 7) / 8]);
            return;
        }
        let said = client.exchange(&request).text();
        let right = r#"{"name":"kept.bin","error":0,"whole":true,"kept":true}"#;
        if said != right {
            wrong.lock().unwrap().push(said);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", server.log());
    assert_eq!(worker_pids(&status(&server)), before, "{}", server.log());
}

/// PHP reads no body of a `PUT`, nor a form whose boundary is missing, nor one that is too long, so
/// the scripts wait for what they read. The end of another request that has done so takes nothing
/// from them.
#[test]
fn bodies_that_scripts_read_by_themselves_do_not_end_with_those_of_others() {
    let server = Setup::new(Kind::Async)
        .site("sites/uploads")
        .workers(1)
        .php_admin_value("post_max_size", "1M")
        .start();
    let before =
        worker_pids(&status_when(&server, "a worker", |status| status["pools"][0]["idle"] == 1));
    let wrong = Mutex::new(Vec::new());
    in_parallel(UPLOADS, |n| {
        let (method, content_type, length) = [
            ("PUT", "application/json", LENGTH),
            ("POST", "multipart/form-data", LENGTH),
            ("POST", "multipart/form-data; boundary=b", 4 * LENGTH),
            ("POST", "application/x-www-form-urlencoded", 4 * LENGTH),
        ][n % 4];
        let letter = b'a' + (n % 26) as u8;
        let request = Request::new(method, "/?reads").header("Content-Type", content_type);
        let said = server.send(&request.body(vec![letter; length])).text();
        if said != format!("{length} {}", char::from(letter)) {
            wrong.lock().unwrap().push(said);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:?}\n{}", server.log());
    assert_eq!(worker_pids(&status(&server)), before, "{}", server.log());
}
