//! One request on a shared connection, as the reader of its response sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep_until};

use super::backlog::Said;
use super::error::UpstreamError;
use super::event::Event;
use super::mux_connection::MuxConnection;
use super::settings::Bounds;

/// A request on a shared connection. Dropping it aborts the request (§5.4).
#[derive(Debug)]
pub(super) struct MuxStream {
    connection: Arc<MuxConnection>,
    id: u16,
    bounds: Bounds,
    timer: Option<Pin<Box<Sleep>>>,
}

impl MuxStream {
    pub fn new(connection: Arc<MuxConnection>, id: u16, bounds: Bounds) -> MuxStream {
        MuxStream { connection, id, bounds, timer: None }
    }

    /// Whether any of the request may have reached the application.
    pub fn has_written(&self) -> bool {
        self.connection.state().requests.get(&self.id).is_some_and(|request| request.is_begun)
    }

    /// The next thing that the application says; nothing follows a fault.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, UpstreamError>> {
        loop {
            let (deadline, fault) = {
                let mut state = self.connection.state();
                let request =
                    state.requests.get_mut(&self.id).expect("it is there as long as its stream");
                match request.backlog.pop() {
                    Ok(Some((Said::Stdout, bytes))) => {
                        return Poll::Ready(Ok(Event::Output(bytes)));
                    }
                    Ok(Some((Said::Stderr, bytes))) => {
                        return Poll::Ready(Ok(Event::Complaint(bytes)));
                    }
                    Ok(None) => {}
                    Err(_) => return Poll::Ready(Err(UpstreamError::Spool)),
                }
                match request.ended {
                    Some(Ok(())) => return Poll::Ready(Ok(Event::End(Vec::new()))),
                    Some(Err(death)) => return Poll::Ready(Err(death.fault(request.answered))),
                    None => {}
                }
                request.reader = Some(context.waker().clone());
                let (limit, fault) = if request.answered {
                    (self.bounds.read_timeout, UpstreamError::Stalled)
                } else if request.all_written {
                    (self.bounds.first_byte_timeout, UpstreamError::Silent)
                } else {
                    (self.bounds.send_timeout, UpstreamError::SendSlow)
                };
                (request.moved + limit, fault)
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
            if timer.deadline() == deadline && timer.is_elapsed() {
                return Poll::Ready(Err(fault));
            }
            if timer.deadline() > deadline || timer.is_elapsed() {
                timer.as_mut().reset(deadline);
            }
            // Set for an earlier deadline it may go off too early; then there is another look.
            std::task::ready!(timer.as_mut().poll(context));
        }
    }
}

impl Drop for MuxStream {
    fn drop(&mut self) {
        self.connection.drop_request(self.id);
    }
}
