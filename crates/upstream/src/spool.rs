//! What applications have sent and slow clients have not taken yet, beyond what memory may hold:
//! it lies in unlinked temporary files, so that an application is free as soon as it has answered.
//! All files of a site have a bound together, and those of all sites have one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How long a client may take nothing of a full memory before its response goes to a file. With a
/// tenth, clients that are only a little slower than the application would cost writes to a file;
/// ten times more would hold a worker for so long for each slow client.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// How soon a file is tried again that could not be written.
pub(crate) const RETRY: Duration = Duration::from_millis(500);

/// Most bytes that are read from a file at once. They lie in memory while the client takes them:
/// ten times more would be ten times the memory for each slow client, a tenth ten times the calls.
pub(crate) const PIECE: usize = 64 * 1024;

/// Writes to files at the same time, each on a thread. A disk that is stuck must not take all
/// threads for such work: request bodies and compression need them, too.
static WRITERS: Semaphore = Semaphore::const_new(16);

/// Bytes that may lie in files.
#[derive(Debug)]
pub struct SpoolBudget {
    most: u64,
    taken: AtomicU64,
}

impl SpoolBudget {
    /// At most this many bytes.
    pub fn new(most: u64) -> SpoolBudget {
        SpoolBudget { most, taken: AtomicU64::new(0) }
    }

    /// Bytes in files now.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Why bytes cannot go to a file. The application has to wait for its client.
#[derive(Debug)]
pub enum SpoolProblem {
    /// The site's files have as many bytes as they may.
    SiteFull,
    /// The files of all sites together have as many bytes as they may.
    AllFull,
    /// The file cannot be made or written.
    Failed(io::Error),
}

/// Told when something cannot be spooled.
pub type SpoolAlarm = Box<dyn Fn(SpoolProblem) + Send + Sync>;

/// What the responses of one site may take in files.
pub struct SpoolQuota {
    site: SpoolBudget,
    all: Arc<SpoolBudget>,
    alarm: SpoolAlarm,
}

impl std::fmt::Debug for SpoolQuota {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpoolQuota").field("site", &self.site).field("all", &self.all).finish()
    }
}

impl SpoolQuota {
    /// At most `most` bytes of the site, within what all sites may have.
    pub fn new(most: u64, all: Arc<SpoolBudget>, alarm: SpoolAlarm) -> Arc<SpoolQuota> {
        Arc::new(SpoolQuota { site: SpoolBudget::new(most), all, alarm })
    }

    /// Bytes of the site in files now.
    pub fn taken(&self) -> u64 {
        self.site.taken()
    }

    fn take(&self, bytes: u64) -> bool {
        if !self.site.take(bytes) {
            (self.alarm)(SpoolProblem::SiteFull);
            return false;
        }
        let has_room = self.all.take(bytes);
        if !has_room {
            self.site.give_back(bytes);
            (self.alarm)(SpoolProblem::AllFull);
        }
        has_room
    }

    fn give_back(&self, bytes: u64) {
        self.site.give_back(bytes);
        self.all.give_back(bytes);
    }
}

/// Bytes of one response in a file, in their order. The file is there only as long as it has bytes
/// that have not been taken.
#[derive(Debug)]
pub(crate) struct Spool {
    quota: Arc<SpoolQuota>,
    file: Option<Arc<File>>,
    /// Bytes that have been taken out.
    read: u64,
    /// Bytes that have been put in.
    written: u64,
    /// Bytes that the quota counts: those in the file and those on their way there.
    held: u64,
}

impl Spool {
    /// Without a file yet.
    pub fn new(quota: Arc<SpoolQuota>) -> Spool {
        Spool { quota, file: None, read: 0, written: 0, held: 0 }
    }

    /// Whether there are no bytes to take.
    pub fn is_empty(&self) -> bool {
        self.read == self.written
    }

    /// Prepares a write of `len` bytes behind the others; one at a time. `None`: the quota is used
    /// up. [`Spool::wrote`] has to follow.
    pub fn write(&mut self, len: usize) -> Option<SpoolWrite> {
        if !self.quota.take(len as u64) {
            return None;
        }
        self.held += len as u64;
        Some(SpoolWrite { file: self.file.clone(), at: self.written })
    }

    /// Records how a write of `len` bytes has ended. Returns whether they are in the file.
    pub fn wrote(&mut self, len: usize, outcome: io::Result<Arc<File>>) -> bool {
        match outcome {
            Ok(file) => {
                self.file = Some(file);
                self.written += len as u64;
                true
            }
            Err(error) => {
                self.held -= len as u64;
                self.quota.give_back(len as u64);
                if self.is_empty() {
                    self.close();
                }
                (self.quota.alarm)(SpoolProblem::Failed(error));
                false
            }
        }
    }

    /// Writes on this thread. Returns whether the bytes are in the file.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let Some(write) = self.write(bytes.len()) else { return false };
        let outcome = write.run(bytes);
        self.wrote(bytes.len(), outcome)
    }

    /// Prepares to read the next bytes, `most` or fewer if the file has no more. [`Spool::took`]
    /// has to follow.
    pub fn read(&self, most: usize) -> Option<SpoolRead> {
        let len = (self.written - self.read).min(most as u64) as usize;
        let file = self.file.as_ref().filter(|_| len > 0)?.clone();
        Some(SpoolRead { file, at: self.read, len })
    }

    /// Records that so many bytes have been read. `is_writing`: a write has been prepared, and so
    /// the file is still needed.
    pub fn took(&mut self, len: usize, is_writing: bool) {
        self.read += len as u64;
        if self.is_empty() && !is_writing {
            self.close();
        }
    }

    /// Gives back the space.
    fn close(&mut self) {
        self.quota.give_back(self.held);
        (self.read, self.written, self.held) = (0, 0, 0);
        let Some(file) = self.file.take() else { return };
        // The kernel frees the blocks of the file, which takes long if there are many.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(file))),
            Err(_) => drop(file),
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.close();
    }
}

/// A write that has been prepared.
pub(crate) struct SpoolWrite {
    file: Option<Arc<File>>,
    at: u64,
}

impl SpoolWrite {
    /// Writes, on a thread that may wait for the disk.
    pub fn run(self, bytes: &[u8]) -> io::Result<Arc<File>> {
        let file = match self.file {
            Some(file) => file,
            None => Arc::new(tempfile::tempfile()?),
        };
        file.write_all_at(bytes, self.at)?;
        Ok(file)
    }

    /// Writes on another thread, and gives the bytes back.
    pub async fn run_elsewhere<B>(self, bytes: B) -> (io::Result<Arc<File>>, Option<B>)
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let Ok(permit) = WRITERS.acquire().await else {
            return (Err(io::ErrorKind::Interrupted.into()), Some(bytes));
        };
        let work = spawn_blocking(move || {
            let _permit = permit;
            (self.run(bytes.as_ref()), Some(bytes))
        });
        work.await.unwrap_or_else(|error| (Err(io::Error::other(error)), None))
    }
}

/// A read that has been prepared.
pub(crate) struct SpoolRead {
    file: Arc<File>,
    at: u64,
    len: usize,
}

impl SpoolRead {
    /// Reads, on a thread that may wait for the disk.
    pub fn run(self) -> io::Result<Bytes> {
        let mut piece = vec![0; self.len];
        self.file.read_exact_at(&mut piece, self.at)?;
        Ok(piece.into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A quota whose use is not logged.
    pub fn quota(most: u64) -> Arc<SpoolQuota> {
        SpoolQuota::new(most, Arc::new(SpoolBudget::new(u64::MAX)), Box::new(|_| {}))
    }

    fn taken(spool: &mut Spool, most: usize) -> Option<Bytes> {
        let bytes = spool.read(most)?.run().unwrap();
        spool.took(bytes.len(), false);
        Some(bytes)
    }

    #[test]
    fn bytes_come_back_in_order_and_the_file_goes_with_the_last() {
        let quota = quota(1 << 20);
        let mut spool = Spool::new(quota.clone());
        for _ in 0..3 {
            assert!(spool.push(&[1; 100_000]) && spool.push(&[2; 1000]));
            assert_eq!(quota.taken(), 101_000);
            let mut all = Vec::new();
            while let Some(bytes) = taken(&mut spool, 30_000) {
                assert!(spool.file.is_some() || spool.is_empty());
                all.extend(bytes);
            }
            assert!(all == [vec![1; 100_000], vec![2; 1000]].concat());
            assert!(spool.file.is_none());
            assert_eq!(quota.taken(), 0);
        }
        assert!(spool.push(b"left"));
        drop(spool);
        assert_eq!(quota.taken(), 0, "what is not read is given back, too");
    }

    #[test]
    fn a_site_has_its_bound_and_all_sites_have_one() {
        let reported = Arc::new(AtomicUsize::new(0));
        let all = Arc::new(SpoolBudget::new(150));
        let quota = |most: u64| {
            let reported = reported.clone();
            let alarm = move |problem: SpoolProblem| {
                let number = if matches!(problem, SpoolProblem::SiteFull) { 1 } else { 100 };
                reported.fetch_add(number, Ordering::Relaxed);
            };
            SpoolQuota::new(most, all.clone(), Box::new(alarm))
        };
        let (one, other) = (quota(100), quota(100));
        let (mut first, mut second) = (Spool::new(one.clone()), Spool::new(other));
        assert!(first.push(&[0; 80]) && !first.push(&[0; 30]));
        assert_eq!(reported.load(Ordering::Relaxed), 1);
        assert!(!second.push(&[0; 80]) && second.push(&[0; 70]));
        assert_eq!(reported.load(Ordering::Relaxed), 101);
        assert_eq!((one.taken(), all.taken()), (80, 150));
        drop((first, second));
        assert_eq!(all.taken(), 0);
    }

    #[test]
    fn a_write_that_fails_takes_nothing() {
        let quota = quota(1000);
        let mut spool = Spool::new(quota.clone());
        assert!(spool.push(b"before"));
        assert!(spool.write(100).is_some());
        assert!(!spool.wrote(100, Err(io::ErrorKind::StorageFull.into())));
        assert!(spool.push(b" behind"));
        assert_eq!(taken(&mut spool, 100).as_deref(), Some(&b"before behind"[..]));
        assert_eq!(quota.taken(), 0);
    }
}
