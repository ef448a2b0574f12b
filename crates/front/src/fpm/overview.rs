//! The pages that need no worker: the pool's status page and ping page.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokamak_fpm::Pool;
use tokamak_fpm::access::percent;
use tokamak_fpm::status::{self, FIELDS, Page, Process, RequestStage, Snapshot, StatusQuery};
use tokamak_upstream::record::Writer;
use tokamak_upstream::{PoolNumber, Segment, Snapshot as WorkerSnapshot, WorkerState};

use super::parameter;

/// The state of a pool for its status page, shared by all event loops.
pub struct Overview {
    pool: Arc<Pool>,
    segment: RwLock<Arc<Segment>>,
    /// PHP's version, if responses show it.
    version: Option<String>,
    /// Requests that workers handle, or that wait for a worker.
    running: AtomicUsize,
}

impl Overview {
    /// The overview of a new pool.
    pub fn new(pool: Arc<Pool>, segment: Arc<Segment>, version: Option<String>) -> Overview {
        Overview { pool, segment: RwLock::new(segment), version, running: AtomicUsize::new(0) }
    }

    /// Records that the pool has another queue from now on.
    pub fn renew(&self, segment: Arc<Segment>) {
        *self.segment.write().unwrap_or_else(PoisonError::into_inner) = segment;
    }

    fn segment(&self) -> Arc<Segment> {
        self.segment.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a request that has come.
    pub fn accept(&self) {
        self.segment().count_pool_number(PoolNumber::Accepted);
    }

    /// Counts a request that is passed to the workers, until the returned value is dropped.
    pub fn run(self: &Arc<Self>) -> Running {
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        let segment = self.segment();
        let workers = usize::from(segment.geometry().workers);
        segment.raise_pool_number(PoolNumber::MaxActive, running.min(workers) as u64);
        segment
            .raise_pool_number(PoolNumber::MaxListenQueue, running.saturating_sub(workers) as u64);
        Running(self.clone())
    }

    /// The status or ping page, if the request asks for one.
    pub fn page(&self, record: &Writer) -> Option<Page> {
        if self.pool.ping.is_none() && self.pool.status_path.is_none() {
            return None;
        }
        let path = parameter(record, b"SCRIPT_NAME")?;
        if let Some(ping) = self.pool.ping.as_ref().filter(|ping| ping.path.as_bytes() == path) {
            return Some(status::ping(&ping.response));
        }
        let asks = self.pool.status_path.as_ref().is_some_and(|status| status.as_bytes() == path);
        let query = parameter(record, b"QUERY_STRING").unwrap_or_default();
        asks.then(|| self.snapshot().page(StatusQuery::of(query)))
    }

    /// The header lines of a page.
    pub fn head(&self, page: &Page) -> Vec<(String, String)> {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let version =
            self.version.iter().map(|version| pair("X-Powered-By", &format!("PHP/{version}")));
        let fields = FIELDS.map(|(name, value)| pair(name, value));
        let charset = if page.content_type.contains("charset") { "" } else { ";charset=UTF-8" };
        let kind = pair("Content-type", &format!("{}{charset}", page.content_type));
        version.chain(fields).chain([kind]).collect()
    }

    fn snapshot(&self) -> Snapshot {
        let segment = self.segment();
        let numbers = segment.pool_numbers();
        let processes = self.processes();
        let idle =
            processes.iter().filter(|process| process.state == RequestStage::Idle).count() as u64;
        Snapshot {
            pool: self.pool.name.clone(),
            manager: self.pool.manager.name(),
            started: numbers.started as i64,
            now: seconds(),
            accepted: numbers.accepted,
            listen_queue: numbers.listen_queue,
            max_listen_queue: numbers.max_listen_queue,
            listen_queue_len: numbers.listen_queue_len,
            idle,
            active: processes.len() as u64 - idle,
            max_active: numbers.max_active,
            max_children_reached: numbers.max_children_reached,
            slow_requests: numbers.slow_requests,
            processes,
        }
    }

    fn processes(&self) -> Vec<Process> {
        let now = tokamak_cost::now();
        let since = |then: u64| Duration::from_nanos(now.saturating_sub(then));
        let segment = self.segment();
        let entries = (0..segment.geometry().workers).map(|index| (index, segment.board(index)));
        let is_there = |(_, entry): &(u16, WorkerSnapshot)| {
            entry.state != WorkerState::Empty && entry.pid != 0
        };
        let process = entries.filter(is_there).map(|(index, entry)| {
            let shown = segment.shown_request(index);
            let is_busy = matches!(entry.state, WorkerState::Busy | WorkerState::Finishing);
            let last = Duration::from_nanos(shown.last_took);
            let (uri, query) = shown.uri.split_once('?').unwrap_or((&shown.uri, ""));
            Process {
                pid: entry.pid,
                state: match entry.state {
                    WorkerState::Busy => RequestStage::Running,
                    WorkerState::Finishing => RequestStage::Finishing,
                    _ => RequestStage::Idle,
                },
                started: seconds() - since(entry.started).as_secs() as i64,
                requests: entry.requests + u64::from(entry.state == WorkerState::Busy),
                duration: if is_busy { since(entry.since) } else { last },
                method: shown.method.into_bytes(),
                uri: uri.to_owned().into_bytes(),
                query: query.to_owned().into_bytes(),
                body_length: shown.body_len,
                user: shown.user.into_bytes(),
                script: shown.script.into_bytes(),
                cpu: percent(Duration::from_micros(shown.last_cpu), last),
                memory: entry.memory,
            }
        });
        process.collect()
    }
}

/// A request that counts as running.
pub struct Running(Arc<Overview>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}
