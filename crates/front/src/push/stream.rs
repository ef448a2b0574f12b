//! The body of a subscriber's response: events, as they are published.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokamak_config as config;
use tokamak_mercure::{End, Piece, Subscription};

use crate::client::Addresses;
use crate::log;

/// Milliseconds after which the first clients come back that a reload has sent away: at once, since
/// the next server is there already.
const FIRST_BACK: usize = 200;

/// Within so many milliseconds more all of them come back. A crowd of ten thousand would be felt
/// in a tenth of it; ten times more would leave pages without news for half a minute.
const ALL_BACK: usize = 3000;

/// Where a stream is.
enum State {
    /// Nothing has been sent.
    Begins,
    /// Events come.
    Runs,
    /// The client has been told when to come back.
    Ends,
}

/// The events of a subscriber.
pub struct Events {
    subscription: Subscription,
    state: State,
    site: Arc<config::Site>,
    client: Arc<Addresses>,
}

impl Events {
    /// The events of this subscription.
    pub fn new(
        subscription: Subscription,
        site: Arc<config::Site>,
        client: Arc<Addresses>,
    ) -> Events {
        Events { subscription, state: State::Begins, site, client }
    }

    /// Polls for the next bytes; none: the stream has ended.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let end = match self.state {
            // A comment: what is between shows clients the head with the first bytes only.
            State::Begins => {
                self.state = State::Runs;
                return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
            }
            State::Runs => match ready!(self.subscription.poll(tokamak_cost::now(), cx)) {
                Piece::Bytes(bytes) => return Poll::Ready(Some(bytes)),
                Piece::End(end) => end,
            },
            State::Ends => return Poll::Ready(None),
        };
        self.state = State::Ends;
        Poll::Ready(match end {
            End::Closed => {
                // Spread evenly, whatever the numbers of those who are still there.
                let spread = self.subscription.number().wrapping_mul(997) % ALL_BACK;
                Some(format!("retry: {}\n\n", FIRST_BACK + spread).into())
            }
            End::Slow | End::Expired => None,
        })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // Here, because a client that takes nothing more is not polled until its time is over.
        if self.subscription.end() == Some(End::Slow) {
            log::unsubscribed(&self.site.name, &self.client.peer);
        }
    }
}
