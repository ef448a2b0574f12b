//! The status page for Prometheus. The order of the comments is php-fpm's, the odd one included.

use std::fmt::Write;

use super::{Snapshot, plain};

/// The page.
pub fn page(snapshot: &Snapshot) -> String {
    let pool = plain(&snapshot.pool);
    let up = format!("Could pool {pool} using a {} PM on PHP-FPM be reached?", snapshot.manager);
    let rows: [(&str, &str, &str, u64); 12] = [
        ("up", "gauge", &up, 1),
        (
            "start_since",
            "counter",
            "The number of seconds since FPM has started.",
            snapshot.since_start(),
        ),
        (
            "accepted_connections",
            "counter",
            "The number of requests accepted by the pool.",
            snapshot.accepted,
        ),
        (
            "listen_queue",
            "gauge",
            "The number of requests in the queue of pending connections.",
            snapshot.listen_queue,
        ),
        (
            "max_listen_queue",
            "counter",
            "The maximum number of requests in the queue of pending connections since FPM has \
                started.",
            snapshot.max_listen_queue,
        ),
        (
            "listen_queue_length",
            "gauge",
            "The size of the socket queue of pending connections.",
            snapshot.listen_queue_len,
        ),
        ("idle_processes", "gauge", "The number of idle processes.", snapshot.idle),
        ("active_processes", "gauge", "The number of active processes.", snapshot.active),
        (
            "total_processes",
            "gauge",
            "The number of idle + active processes.",
            snapshot.idle + snapshot.active,
        ),
        (
            "max_active_processes",
            "counter",
            "The maximum number of active processes since FPM has started.",
            snapshot.max_active,
        ),
        (
            "max_children_reached",
            "counter",
            "The number of times, the process limit has been reached, when pm tries to start more \
                children \
             (works only for pm 'dynamic' and 'ondemand').",
            snapshot.max_children_reached,
        ),
        (
            "slow_requests",
            "counter",
            "The number of requests that exceeded your 'request_slowlog_timeout' value.",
            snapshot.slow_requests,
        ),
    ];
    let mut page = String::new();
    for (name, kind, help, value) in rows {
        let help = format!("# HELP phpfpm_{name} {help}\n");
        let kind = format!("# TYPE phpfpm_{name} {kind}\n");
        let (first, second) =
            if name == "listen_queue_length" { (kind, help) } else { (help, kind) };
        let _ = writeln!(page, "{first}{second}phpfpm_{name} {value}");
    }
    page.push_str("# EOF\n");
    page
}
