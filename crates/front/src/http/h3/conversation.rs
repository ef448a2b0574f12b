//! The task of a connection.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use h3::error::{Code, ConnectionError};
use h3::server::{Connection, RequestResolver};
use tokamak_config as config;
use tokio::time::{Sleep, sleep};

use super::send;
use super::shared::{Shared, count, number};
use super::transport::Transport;
use crate::client::activity::DRAIN_IDLE;
use crate::context::Context;
use crate::http::multiplex::ConnState;

/// Requests that a connection begins before other tasks of the event loop get their turn, as over
/// HTTP/2.
const AT_ONCE: u32 = 16;

/// How far the end of a connection is.
enum Leaving {
    /// The client was told to open no more requests here; those that are on their way are served
    /// until then.
    Announced(Pin<Box<Sleep>>),
    /// Which of its requests is the last one.
    Final,
}

/// A stream for a request has come, or the connection has ended.
type Accepted = Result<Option<RequestResolver<Transport, Bytes>>, ConnectionError>;

/// A step towards the end of a connection.
enum Step {
    /// The client is to be told to go, or what its last request is.
    Leave,
    /// All is answered, and nothing more comes.
    Over,
}

/// Closes the connection in any case: requests that are under way learn by that that their client
/// has gone.
struct Closing(quinn::Connection);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(number(Code::H3_NO_ERROR.value()), b"");
    }
}

/// Serves the requests of one connection until it ends.
pub async fn serve_connection(
    context: Arc<Context>,
    quic: quinn::Connection,
    state: Arc<ConnState>,
) {
    let config::Server { limits, http3, .. } = &*context.config;
    let _closing = Closing(quic.clone());
    let shared = Shared::new(context.clone(), quic.clone(), state.clone());
    count(&context, |http3| &http3.connections);
    let mut builder = h3::server::builder();
    // Twice the limit, so that a head that is somewhat too large gets the right page.
    builder.max_field_section_size(2 * limits.head as u64).send_grease(false);
    let built = builder.build(Transport::new(quic, shared.clone())).await;
    let mut http: Connection<Transport, Bytes> = match built {
        Ok(http) => http,
        Err(error) => return shared.ended(&error),
    };
    let mut leaving = None;
    let mut begun = 0;
    loop {
        let next = poll_fn(|cx| -> Poll<Result<Accepted, Step>> {
            state.activity.listen(cx.waker());
            if let Poll::Ready(stream) = pin!(http.accept()).poll(cx) {
                return Poll::Ready(Ok(stream));
            }
            match &mut leaving {
                None if state.is_leaving() => Poll::Ready(Err(Step::Leave)),
                Some(Leaving::Announced(deadline)) => {
                    deadline.as_mut().poll(cx).map(|()| Err(Step::Leave))
                }
                Some(Leaving::Final) if state.open() == 0 => Poll::Ready(Err(Step::Over)),
                _ => Poll::Pending,
            }
        });
        match next.await {
            Ok(Ok(Some(resolver))) => {
                begun += 1;
                let Some(gate) = shared.take_accepted() else { continue };
                let request = Box::pin(send::answer(shared.clone(), resolver, gate));
                run(request).await;
                if state.requests() as usize >= http3.requests {
                    state.leave(tokamak_cost::coarse());
                }
                if begun % AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
            }
            Ok(Ok(None)) | Err(Step::Over) => return,
            Ok(Err(error)) => return shared.ended(&error),
            Err(Step::Leave) if leaving.is_none() => {
                let is_full = state.requests() as usize >= http3.requests;
                if !context.is_draining() && !is_full && state.open() > 0 {
                    // It was idle for too long, but has a request now.
                    state.stay();
                    continue;
                }
                // Requests that are on their way are served, as over HTTP/2.
                let patience = if state.open() > 0 { DRAIN_IDLE } else { DRAIN_IDLE / 2 };
                leaving = Some(Leaving::Announced(Box::pin(sleep(patience))));
                if let Err(error) = http.shutdown(http3.streams).await {
                    return shared.ended(&error);
                }
            }
            Err(Step::Leave) => {
                leaving = Some(Leaving::Final);
                if let Err(error) = http.shutdown(0).await {
                    return shared.ended(&error);
                }
            }
        }
    }
}

/// Runs a request: in this task as far as it goes without waiting, then in one of its own.
async fn run(mut request: Pin<Box<impl Future<Output = ()> + Send + 'static>>) {
    if poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await.is_pending() {
        tokio::spawn(request);
    }
}
