//! The crate fastcgi, on descriptor 0.

use std::io::{Read, Write};

fn main() {
    fastcgi::run(|mut request| {
        let mut answer = b"Content-Type: text/plain\r\n\r\n".to_vec();
        if request.param("PATH_INFO").as_deref() == Some("/echo") {
            let _ = request.stdin().read_to_end(&mut answer);
        } else {
            for (name, value) in request.params() {
                answer.extend(format!("{name}={value}\n").into_bytes());
            }
        }
        let _ = request.stdout().write_all(&answer);
    });
}
