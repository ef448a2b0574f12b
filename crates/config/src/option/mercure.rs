//! What is set for the hub of a site.

use std::time::Duration;

use crate::model::{Secret, TokenAlgorithm};
use crate::unit::{GIB, HOUR, KIB, SECOND};
use crate::value::{ANY, Count, Direct, KeyText, Size, Text, within};

section! {
    /// The hub of the site above it: what the application publishes reaches subscribed browsers at
    /// once, by the Mercure protocol below `/.well-known/mercure`.
    Mercure "site.mercure" {
        /// Whether the site has a hub.
        enabled: bool = "false", ANY, Live, env "TOKAMAK_MERCURE";
        /// The key of publishers: a secret of 32 characters at least (48 for HS384, 64 for HS512),
        /// or the public key (PEM) that verifies their tokens. Without one only scripts of the site
        /// publish.
        publisher_key: Option<KeyText> = "", ANY, Live, env "TOKAMAK_MERCURE_PUBLISHER_KEY";
        /// How publishers sign their tokens; others are refused.
        publisher_algorithm: TokenAlgorithm = "HS256", ANY, Live, env "TOKAMAK_MERCURE_PUBLISHER_ALGORITHM";
        /// The key of subscribers, as that of publishers.
        subscriber_key: Option<KeyText> = "", ANY, Live, env "TOKAMAK_MERCURE_SUBSCRIBER_KEY";
        /// How the tokens of subscribers are signed; others are refused.
        subscriber_algorithm: TokenAlgorithm = "HS256", ANY, Live, env "TOKAMAK_MERCURE_SUBSCRIBER_ALGORITHM";
        /// Whether clients without a token may subscribe; they get no private updates.
        anonymous: bool = "false", ANY, Live, env "TOKAMAK_MERCURE_ANONYMOUS";
        /// Other origins whose pages may use the hub, such as `"https://www.example.org"`; `"*"`
        /// stands for all of them, without cookies.
        origins: Vec<Text> = "", ANY, Live;
        /// Updates that are kept for subscribers that come back. One that has still to get an
        /// update that is not kept any more is ended.
        history: Count = "1000", within(1, 1_000_000), Live, env "TOKAMAK_MERCURE_HISTORY";
        /// Bytes of memory that they take at most.
        history_size: Size = "8MiB", within(64 * KIB, 16 * GIB), Live, env "TOKAMAK_MERCURE_HISTORY_SIZE";
        /// Most subscribers; one more is answered 503. Each has a connection, or a stream of one,
        /// too.
        subscribers: Count = "10000", within(1, 1_000_000), Live, env "TOKAMAK_MERCURE_SUBSCRIBERS";
        /// Most topics of a subscription, and of an update.
        topics: Count = "100", within(1, 1000), Live, env "TOKAMAK_MERCURE_TOPICS";
        /// Bytes of the data and topics of an update; a larger one is answered 413.
        update_size: Size = "256KiB", within(KIB, GIB), Live, env "TOKAMAK_MERCURE_UPDATE_SIZE";
        /// Redis server by which several nodes are one hub, such as `"10.0.0.5:6379"` or
        /// `"unix:/run/redis.sock"`. Absent: each node has a hub of its own.
        redis: Option<Direct> = "", ANY, Live, env "TOKAMAK_MERCURE_REDIS";
        /// Its password.
        redis_password: Option<Secret> = "", ANY, Live, env "TOKAMAK_MERCURE_REDIS_PASSWORD";
        /// Its database.
        redis_database: Count = "0", within(0, 1_000_000), Live, env "TOKAMAK_MERCURE_REDIS_DATABASE";
        /// What the name of the stream there begins with; nodes with the same one, and the same
        /// name of the site, are one hub.
        redis_prefix: Text = "tokamak:", ANY, Live, env "TOKAMAK_MERCURE_REDIS_PREFIX";
        /// How long a publisher waits for it; then it is answered 503.
        redis_timeout: Duration = "2s", within(1, 10 * SECOND), Live, env "TOKAMAK_MERCURE_REDIS_TIMEOUT";
        /// After how long without an update a subscriber gets an empty line, so that nothing on its
        /// way takes the connection for a dead one.
        heartbeat: Duration = "20s", within(SECOND, HOUR), Live, env "TOKAMAK_MERCURE_HEARTBEAT";
    }
}
