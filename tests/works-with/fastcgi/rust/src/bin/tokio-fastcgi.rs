//! The crate tokio-fastcgi, on a socket of its own, whose path is the argument.

use std::fs::{Permissions, set_permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::net::unix::OwnedWriteHalf;
use tokio_fastcgi::{Request, RequestResult, Requests};

async fn answer(request: Arc<Request<OwnedWriteHalf>>) -> RequestResult {
    let mut answer = b"Content-Type: text/plain\r\n\r\n".to_vec();
    if request.get_str_param("PATH_INFO") == Some("/echo") {
        let _ = request.get_stdin().read_to_end(&mut answer);
    } else {
        for (name, value) in request.str_params_iter().into_iter().flatten() {
            let line = format!("{}={}\n", name.to_uppercase(), value.unwrap_or_default());
            answer.extend(line.into_bytes());
        }
    }
    match request.get_stdout().write(&answer).await {
        Ok(_) => RequestResult::Complete(0),
        Err(_) => RequestResult::Complete(1),
    }
}

#[tokio::main]
async fn main() {
    let path = std::env::args().nth(1).expect("the path of the socket");
    let listener = UnixListener::bind(&path).expect("the socket");
    set_permissions(&path, Permissions::from_mode(0o777)).expect("the socket's permissions");
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut requests = Requests::from_split_socket(stream.into_split(), 64, 64);
            while let Ok(Some(request)) = requests.next().await {
                tokio::spawn(async move {
                    let _ = request.process(answer).await;
                });
            }
        });
    }
}
