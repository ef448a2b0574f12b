//! The body of a subscriber's response: events, as they are published.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokamak_config as config;
use tokamak_mercure::{End, Piece, Subscription};

use super::gzip::Gzip;
use crate::client::Addresses;
use crate::log;

/// A comment. The stream begins with one, because what is between shows clients the head with the
/// first bytes only, and has one for each heartbeat.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

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
    /// The client has got its last event.
    Ends,
    /// And what the coding has behind that.
    Over,
}

/// The events of a subscriber.
pub struct Events {
    subscription: Subscription,
    /// Set if they are sent compressed.
    gzip: Option<Gzip>,
    state: State,
    site: Arc<config::Site>,
    client: Arc<Addresses>,
}

impl Events {
    /// The events of this subscription, as they are or in gzip.
    pub fn new(
        subscription: Subscription,
        gzip: Option<Gzip>,
        site: Arc<config::Site>,
        client: Arc<Addresses>,
    ) -> Events {
        Events { subscription, gzip, state: State::Begins, site, client }
    }

    /// Polls for the next bytes; none: the stream has ended.
    pub fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let end = match self.state {
            State::Begins => {
                self.state = State::Runs;
                return Poll::Ready(Some(match &mut self.gzip {
                    Some(gzip) => gzip.begin(&COMMENT),
                    None => COMMENT,
                }));
            }
            State::Runs => match ready!(self.subscription.poll(tokamak_cost::now(), cx)) {
                Piece::Update(update) => {
                    return Poll::Ready(Some(match &mut self.gzip {
                        Some(gzip) => gzip.update(&update),
                        None => update.text.clone(),
                    }));
                }
                Piece::Heartbeat => return Poll::Ready(Some(self.text(COMMENT))),
                Piece::End(end) => end,
            },
            State::Ends => {
                self.state = State::Over;
                return Poll::Ready(self.gzip.take().map(Gzip::end));
            }
            State::Over => return Poll::Ready(None),
        };
        self.state = State::Ends;
        match end {
            End::Closed => {
                // Spread evenly, whatever the numbers of those who are still there.
                let spread = self.subscription.number().wrapping_mul(997) % ALL_BACK;
                let retry = format!("retry: {}\n\n", FIRST_BACK + spread);
                Poll::Ready(Some(self.text(retry.into())))
            }
            End::Slow | End::Expired => self.poll_piece(cx),
        }
    }

    fn text(&mut self, text: Bytes) -> Bytes {
        match &mut self.gzip {
            Some(gzip) => gzip.text(&text),
            None => text,
        }
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
