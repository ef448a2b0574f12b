//! Active health checks: every address is asked for a path at an interval, independently of
//! requests by clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokamak_config::{self as config, Protocol};
use tokamak_upstream::body::Body;
use tokamak_upstream::remote::{
    Call, Checkup, Event, Params, ResponseStart, Role, Upstream, UpstreamError,
};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::head::Block;
use super::http_messages;
use super::params::CONSTANT;

/// Checks the application at this index of `upstreams` as long as the returned future is polled.
/// `loop_index` is the calling event loop.
pub async fn run(
    upstreams: Arc<[Upstream]>,
    index: usize,
    loop_index: usize,
    config: config::Upstream,
) {
    let Some(check) = config.check else { return };
    let keep = upstreams[index].keeps();
    let call = match &config.protocol {
        Protocol::FastCgi => call(&check, &config.params, keep),
        Protocol::Http(proxy) => Ok(http_messages::check(&check, proxy, config.head, keep)),
    };
    // Parameters that do not fit into a record cannot be sent. Every request fails with that
    // message, so the check does not repeat it.
    let Ok(call) = call else { return };
    let (call, expected, most) = (Arc::new(call), check.status, config.head);
    let mut ticks = interval(check.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let tasks: Vec<_> = upstreams[index]
            .checkups()
            .into_iter()
            .map(|checkup| {
                let (upstreams, call) = (upstreams.clone(), call.clone());
                tokio::spawn(async move {
                    let upstream = &upstreams[index];
                    let asked = timeout(
                        check.timeout,
                        ask(upstream, &checkup, loop_index, &call, expected, most),
                    );
                    let outcome = match asked.await {
                        Ok(outcome) => outcome,
                        Err(_) => Some(Err(silence(check.timeout))),
                    };
                    if let Some(outcome) = outcome {
                        upstream.conclude(&checkup, outcome);
                    }
                })
            })
            .collect();
        for task in tasks {
            // A check that panicked has been reported. The next check is a task of its own.
            let _ = task.await;
        }
    }
}

fn silence(limit: Duration) -> String {
    format!("a check was not answered within {} s", limit.as_secs_f32())
}

/// Runs one check and gives its result; `None` if the address is too busy to be checked.
async fn ask(
    upstream: &Upstream,
    checkup: &Checkup,
    loop_index: usize,
    call: &Arc<Call>,
    expected: u16,
    most: usize,
) -> Option<Result<(), String>> {
    let answer = upstream.check(checkup, loop_index, call).await?;
    Some(match status(answer, most).await {
        Ok(status) if status == expected => Ok(()),
        Ok(status) => Err(format!("a check was answered with status {status}")),
        Err(reason) => Err(reason),
    })
}

/// The status of an answer. The answer is read to its end so that its connection can be reused.
async fn status(answer: Result<ResponseStart, UpstreamError>, most: usize) -> Result<u16, String> {
    let text = |fault: UpstreamError| fault.to_string();
    let ResponseStart { mut exchange, mut event, .. } = answer.map_err(text)?;
    let mut block = Block::new(most);
    let mut status = None;
    loop {
        match event {
            Event::Output(bytes) if status.is_none() => {
                let mut rest = bytes;
                while let Some((head, behind)) = block.feed(rest).map_err(str::to_owned)? {
                    if !head.status.is_informational() {
                        status = Some(head.status.as_u16());
                        break;
                    }
                    rest = behind;
                }
            }
            Event::Head(head) => status = Some(head.status),
            Event::Interim(_) | Event::Output(_) | Event::Complaint(_) => {}
            Event::End(_) => return status.ok_or_else(|| block.unfinished().to_owned()),
        }
        event = exchange.next().await.map_err(text)?;
    }
}

/// The request: what a server on this machine would send for the path.
fn call(
    check: &config::Check,
    params: &BTreeMap<String, config::Secret>,
    keep: bool,
) -> Result<Call, ()> {
    let (path, query) = check.path.split_once('?').unwrap_or((&check.path, ""));
    let plain = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", &check.path),
        ("QUERY_STRING", query),
        ("SCRIPT_NAME", path),
        ("SCRIPT_FILENAME", path),
        ("DOCUMENT_URI", path),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_NAME", "localhost"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_PORT", "80"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_PORT", "0"),
    ];
    let mut all: BTreeMap<&str, &[u8]> =
        plain.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    all.extend(CONSTANT);
    let given = params.iter().chain(&check.params);
    all.extend(given.map(|(name, value)| (name.as_str(), value.reveal().as_bytes())));
    let operators = |name: &str| params.contains_key(name) || check.params.contains_key(name);
    // The operator removes a parameter by leaving it empty.
    all.retain(|name, value| !value.is_empty() || !operators(name));
    Call::fastcgi(Role::Responder, keep, true, Body::Empty, |to: &mut Params<'_>| {
        all.iter().try_for_each(|(name, value)| to.pair(name.as_bytes(), value).map_err(drop))
    })
}
