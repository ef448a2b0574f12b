//! The threads that verify passwords. They have a low priority, so that requests come first where
//! there is not enough time for both.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokamak_auth::Login;
use tokio::sync::watch;

use super::file::KnownUsers;
use crate::throttle::{ClientKey, Pace, Slot, Throttle};

/// Logins that wait for a thread. With a hash that takes 100 ms, the last one waits for ten
/// seconds; with ten times more, users would have left before their answer.
const QUEUE: usize = 100;

/// Their nice value: they get a tenth of the time that another thread gets.
const NICE: i32 = 10;

/// A login that is to be verified.
pub struct Job {
    /// The users.
    pub known: Arc<KnownUsers>,
    /// The login.
    pub login: Login,
    /// The client, for the limit on wrong passwords.
    pub client: ClientKey,
    /// Its slot among the logins of the client.
    pub slot: Slot,
    /// Where the result goes.
    pub result: watch::Sender<Option<bool>>,
}

/// The queue to the threads, which end when it is dropped.
pub struct Verifier(SyncSender<Job>);

/// The queue is full.
#[derive(Debug)]
pub struct Full;

impl Verifier {
    /// Starts so many threads. A wrong password counts for its client once that is known.
    ///
    /// # Errors
    /// Fails if there are no more threads.
    pub fn start(threads: usize, throttle: Arc<Throttle>, pace: Pace) -> io::Result<Verifier> {
        let (sender, jobs) = sync_channel(QUEUE);
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..threads {
            let (jobs, throttle) = (jobs.clone(), throttle.clone());
            let thread = std::thread::Builder::new().name(format!("passwords-{number}"));
            thread.spawn(move || work(&jobs, &throttle, &pace))?;
        }
        Ok(Verifier(sender))
    }

    /// Queues a job.
    ///
    /// # Errors
    /// Fails if the queue is full.
    pub fn take(&self, job: Job) -> Result<(), Full> {
        self.0.try_send(job).map_err(|_| Full)
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, throttle: &Throttle, pace: &Pace) {
    // It is the priority of this thread alone. If it fails, requests share the processors equally.
    let _ = rustix::process::setpriority_process(None, NICE);
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { known, login, client, slot, result }) = next else { return };
        let count_wrong = || _ = throttle.buckets.admit(client, pace, tokamak_cost::now());
        // A panic, which is written to standard error, drops the result; the thread goes on.
        let verify = || known.verify(&login, &result, count_wrong);
        let _ = catch_unwind(AssertUnwindSafe(verify));
        drop(slot);
    }
}
