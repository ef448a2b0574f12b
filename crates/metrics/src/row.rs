//! The table of all metrics.

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It grows; it begins anew with the process that counts.
    Counter,
    /// It is what it is now.
    Gauge,
    /// Times, or other numbers, in buckets, with their sum and count.
    Histogram,
}

impl Kind {
    /// The word of both formats.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

macro_rules! rows {
    ($($row:ident $kind:ident $name:literal $unit:literal [$($label:literal)*] $help:literal)*) => {
        /// A metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Row {
            $(#[doc = $help] $row,)*
        }

        impl Row {
            /// All of them, in the order in which they are shown.
            pub const ALL: &[Row] = &[$(Row::$row),*];

            /// Its name without the ending `_total` of counters.
            pub fn name(self) -> &'static str {
                match self { $(Row::$row => concat!("tokamak_", $name),)* }
            }

            /// What kind of number it is.
            pub fn kind(self) -> Kind {
                match self { $(Row::$row => Kind::$kind,)* }
            }

            /// Its unit, with which the name ends; empty: it has none.
            pub fn unit(self) -> &'static str {
                match self { $(Row::$row => $unit,)* }
            }

            /// By what the bounds of its buckets are divided: those of times are microseconds.
            pub fn whole(self) -> f64 {
                if self.unit() == "seconds" { 1e6 } else { 1.0 }
            }

            /// The names of its labels.
            pub fn labels(self) -> &'static [&'static str] {
                match self { $(Row::$row => &[$($label),*],)* }
            }

            /// What it is, in one sentence without a full stop.
            pub fn help(self) -> &'static str {
                match self { $(Row::$row => $help,)* }
            }
        }
    };
}

rows! {
    Build Gauge "build_info" "" ["version"]
        "Always 1; the label says which version runs"
    Requests Counter "requests" "" ["site" "route" "status"]
        "Requests of clients that are over, by the class of their status; `none`: the client left \
        before the response began"
    Duration Histogram "request_duration_seconds" "seconds" ["site" "route"]
        "Time from the first byte of a request to the end of its response"
    Phases Histogram "request_phase_seconds" "seconds" ["site" "route" "phase"]
        "Time of a request's phases; a request counts in those that took any time of it"
    Calls Counter "calls" "" ["site" "route" "kind"]
        "Calls of requests in sites with `count_calls`: `sql` to databases, `http` to other servers"
    CallTimes Histogram "request_calls_seconds" "seconds" ["site" "route" "kind"]
        "Time of all calls of one kind that a request has made; a request counts that made any"
    RequestBytes Counter "request_bytes" "bytes" ["site" "route"]
        "Bytes of requests, heads and bodies, that were read until their responses were over"
    ResponseBytes Counter "response_body_bytes" "bytes" ["site" "route"]
        "Bytes of response bodies, as in the access log"
    CompressionInput Counter "compression_input_bytes" "bytes" ["encoding"]
        "Bytes of response bodies that were compressed, by the coding: `zstd`, `br`, `gzip`"
    CompressionOutput Counter "compression_output_bytes" "bytes" ["encoding"]
        "Bytes that they became; what is kept compressed (in the content cache, by a hub) counts once"
    Failures Counter "failures" "" ["kind" "side"]
        "Requests (those of scripts too), responses that broke off and connections that failed, by \
        the name of the failure in the error log and by who caused it: `client`, `server` or \
        `backend`"
    Connections Gauge "connections" "" []
        "Open connections of clients and web servers"
    ConnectionsAccepted Counter "connections_accepted" "" []
        "Connections of clients and web servers that were accepted"
    ConnectionsRefused Counter "connections_refused" "" []
        "Those of them that were turned away: because of `limits.connections`, or because the web \
        server may not connect"
    ConnectionsClosed Counter "connections_closed" "" []
        "The others that are closed, as seen when the metrics were read"
    LimitedRequests Counter "limited_requests" "" ["site" "limit" "action"]
        "Requests beyond a limit by client: `rate`, `connections`, or `passwords` that one client \
        may try; `refused`, or only logged by a `dry_run`"
    HubSubscribers Gauge "hub_subscribers" "" ["site"]
        "Subscribers of the site's hub"
    HubUpdates Counter "hub_updates" "" ["site"]
        "Updates that were published in the site's hub"
    HubDeliveries Counter "hub_deliveries" "" ["site"]
        "Updates that subscribers got, each of them counted"
    HubEnded Counter "hub_ended" "" ["site" "reason"]
        "Subscriptions that the hub has ended: `slow`, its history had dropped an update that was \
        still to be sent; `expired`, so had the token; `closed`, by a reload or a stop"
    HubHistory Gauge "hub_history_updates" "" ["site"]
        "Updates in the hub's history"
    HubHistoryBytes Gauge "hub_history_bytes" "bytes" ["site"]
        "Bytes that they take"
    TlsHandshakes Counter "tls_handshakes" "" ["version" "resumed"]
        "TLS handshakes with clients, by version and by whether an earlier connection was resumed"
    TlsFailures Counter "tls_handshake_failures" "" ["reason"]
        "Handshakes that failed: `closed`, the client has gone before the end; `plain_http`, it \
        sent a request without TLS; `refused`, client and server do not agree; `timeout`"
    TlsCertificates Gauge "tls_certificate_end_seconds" "seconds" ["name"]
        "When the certificate for a name ends, in seconds since 1970; the name is the first one \
        in the certificate"
    Http2Connections Counter "http2_connections" "" []
        "Connections of clients that began with HTTP/2"
    Http2Requests Counter "http2_requests" "" []
        "Requests that came over HTTP/2"
    Http2Refused Counter "http2_requests_refused" "" []
        "Requests that came on an HTTP/2 connection after its client had been told to open \
        another one; it may send them again"
    Http2Closed Counter "http2_connections_closed" "" ["reason"]
        "HTTP/2 connections that were closed for what the client did: `resets` or \
        `control_frames`, more than the limit of that name; `protocol`, a rule of HTTP/2 or a \
        limit on heads and small frames"
    Http3Connections Counter "http3_connections" "" []
        "Connections of clients over QUIC whose handshake was over"
    Http3Requests Counter "http3_requests" "" []
        "Requests that came over HTTP/3"
    Http3Closed Counter "http3_connections_closed" "" ["reason"]
        "HTTP/3 connections that were closed for what the client did: `resets` or \
        `control_frames`, more than the limit of that name; `protocol`, a rule of HTTP/3 or a \
        limit on frames"
    WebSockets Counter "websockets" "" []
        "WebSockets between clients and HTTP applications that have begun"
    WebSocketsOpen Gauge "websockets_open" "" []
        "Those of them that are open"
    EventLoops Gauge "event_loops" "" ["state"]
        "Event loops: `serving` have connections of HTTP clients, `idle` do not need to at this \
        load"
    EventLoopRequests Counter "event_loop_requests" "" ["loop"]
        "Requests by the event loop that they came to; the first one is 0"
    CacheRequests Counter "cache_requests" "" ["result"]
        "Requests by what the content cache did: `hit`, `stale`, `miss`, `coalesced` (answered \
        with what another request had asked for), `bypassed`"
    CacheRevalidated Counter "cache_revalidated" "" []
        "Stored responses that an application found still right"
    CacheStored Counter "cache_stored" "" []
        "Responses that the content cache has stored"
    CacheEntries Gauge "cache_entries" "" []
        "URLs that the content cache has something for"
    CacheBytes Gauge "cache_bytes" "bytes" []
        "Bytes that the content cache takes"
    CacheLimit Gauge "cache_limit_bytes" "bytes" []
        "Bytes that the content cache may take"
    SpooledBytes Gauge "spooled_bytes" "bytes" ["site"]
        "Bytes of responses in temporary files, because their clients take them slowly"
    UpstreamRequests Counter "upstream_requests" "" ["upstream" "address"]
        "Requests that an address of a FastCGI application began to answer"
    UpstreamFailures Counter "upstream_failures" "" ["upstream" "address"]
        "Requests that it did not answer"
    UpstreamConnections Gauge "upstream_connections" "" ["upstream" "address" "state"]
        "Connections to it: `in_use` have a request, `idle` have none"
    UpstreamWaiting Gauge "upstream_waiting" "" ["upstream" "address"]
        "Requests that wait for a connection to it"
    UpstreamUp Gauge "upstream_up" "" ["upstream" "address"]
        "1 if it gets requests, 0 if it does not"
    TraceSpans Counter "trace_spans" "" ["result"]
        "Spans of recorded requests: `exported`; `rejected` by the collector; `undelivered`; \
        `dropped`, because there were more than `trace.export_rate` allows or than may wait"
    AdminRequests Counter "admin_requests" "" []
        "Requests to the admin listener"
    AdminCut Counter "admin_connections_cut" "" []
        "Connections to the admin listener that were closed because the client was silent, did not \
        read its answer, or had to make room for another one"
    FrontCpu Counter "front_cpu_seconds" "seconds" []
        "Processor time of the process that serves HTTP"
    SupervisorAnswered Gauge "supervisor_answered" "" []
        "1 if the supervisor has answered this scrape; without its answer the rows below are absent"
    Generation Gauge "generation" "" []
        "Counts the reloads, from 1"
    GenerationsDraining Gauge "generations_draining" "" []
        "Older generations that still answer requests"
    Uptime Gauge "uptime_seconds" "seconds" []
        "Time since the server started"
    ProcessMemory Gauge "process_memory_bytes" "bytes" ["process"]
        "Resident memory of the `supervisor` and of the `front`, which serves HTTP"
    CertificateOrder Gauge "certificate_order_seconds" "seconds" ["name"]
        "When the server orders the next certificate for a name by itself, in seconds since 1970"
    CertificateFailing Gauge "certificate_failing" "" ["name"]
        "1 if the last try to get a certificate for the name failed; why is in `tokamak status`"
    Workers Gauge "workers" "" ["site" "state"]
        "PHP workers by what they do, as in `tokamak status`"
    WorkersLimit Gauge "workers_limit" "" ["site"]
        "Most workers that the site may have"
    WorkerRequests Counter "worker_requests" "" ["site"]
        "Requests that workers have served, by their own word, since the generation began"
    WorkerEndings Counter "worker_endings" "" ["site" "reason"]
        "Workers that have ended: `asked` to (reload, fewer wanted), `retired` (`max_requests`, \
        `max_memory`), `timed_out`, `crashed`, `exited`, `boot_failed`, `stale_connection`, \
        `outdated`, `not_undone` (what a request did), `orphaned` (its zygote died)"
    WorkerMemory Gauge "worker_php_memory_bytes" "bytes" ["site"]
        "Memory that PHP holds in all workers, each after its last request"
    Queue Gauge "queue_length" "" ["site"]
        "Requests that wait for a worker; how long they wait is the phase `queue`"
    Renewals Counter "renewals" "" ["site"]
        "How often the site got other processes, since the generation began"
    RollBack Histogram "roll_back_seconds" "seconds" ["site"]
        "Sealed mode: time of roll-backs"
    RollBackPages Histogram "roll_back_pages" "pages" ["site"]
        "Sealed mode: pages that a roll-back has copied"
    Image Gauge "image_bytes" "bytes" ["site" "memory"]
        "Sealed mode: resident memory of the booted application from which workers are forked: \
        `private` is its own, `shared` the opcode cache, libraries and other files"
    WorkerCpu Counter "worker_cpu_seconds" "seconds" ["site"]
        "Processor time of a site's PHP processes, user's and system's: of workers, also of those \
        that have ended, and of the process that forks them; since the generation began"
    UnderWay Gauge "worker_requests_under_way" "" ["site"]
        "Async mode: requests that workers have under way"
    Held Counter "worker_waits_held" "" ["site"]
        "Async mode: waits that have held all requests of a worker, as in `tokamak status`; since \
        the generation began"
    LostServerLines Counter "log_lines_lost" "" ["log"]
        "Lines of supervisor and front for the `access` logs and the `error` log that were lost, \
        because a disk or a reader was too slow; those of the front since the generation began"
    LostLines Counter "error_log_lines_lost" "" ["site"]
        "Lines of a site's PHP processes that were lost, because nobody has read the error log; \
        since the generation began"
    ApplicationProcesses Gauge "application_processes" "" ["upstream" "state"]
        "Processes of applications that the server starts: `running`, `stopping`, `down`"
    ApplicationRestarts Counter "application_restarts" "" ["upstream"]
        "Processes of such an application that were started in place of others"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_name(text: &str) -> bool {
        let mut bytes = text.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_lowercase())
            && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    }

    #[test]
    fn rows_keep_the_rules_of_both_formats() {
        for row in Row::ALL {
            let (name, unit) = (row.name(), row.unit());
            assert!(is_name(name) && row.labels().iter().all(|label| is_name(label)), "{name}");
            assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{name}");
            for reserved in ["_total", "_count", "_sum", "_bucket", "_created"] {
                assert!(!name.ends_with(reserved), "{name}");
            }
            assert!(!row.labels().contains(&"le"), "{name}");
            assert!(!row.help().ends_with('.') && !row.help().contains('|'), "{name}");
            assert!(
                row.kind() != Kind::Histogram || ["seconds", "pages"].contains(&unit),
                "{name}"
            );
        }
        let mut names: Vec<_> = Row::ALL.iter().map(|row| row.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Row::ALL.len());
    }
}
