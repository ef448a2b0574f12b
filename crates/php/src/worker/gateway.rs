//! What a worker does for requests over FastCGI beside serving them: what php-fpm's status shows,
//! what the request cost, and what is said to its sender.

use std::ffi::c_int;

use tokamak_sys::control::FLUSH;
use tokamak_sys::queue::record::Field;
use tokamak_sys::queue::{Board, Job, Usage};

use crate::engine;
use crate::log::Level;
use crate::request::Request;
use crate::settings::Settings;

/// What is remembered of a request over FastCGI beside the request itself.
#[derive(Default)]
pub struct Gateway {
    /// Least level of what goes to standard error.
    log_level: Level,
    /// Standard error is read by somebody.
    is_caught: bool,
    claimed_at: u64,
    /// User and system time of the process at the claim.
    cpu: [u64; 2],
    /// The user of its authentication.
    user: Vec<u8>,
    has_complained: bool,
    /// The URI as the board shows it.
    uri: Vec<u8>,
}

impl Gateway {
    /// Before the first request.
    pub fn of(settings: &Settings) -> Gateway {
        Gateway {
            log_level: settings.fpm.as_ref().map_or(Level::default(), |fpm| fpm.log_level),
            is_caught: settings.fpm.is_some() && settings.catch_output,
            ..Gateway::default()
        }
    }

    /// A request begins: the board shows of it what php-fpm's status does.
    pub fn begin(&mut self, request: &Request, board: &Board) {
        self.claimed_at = tokamak_cost::now();
        self.cpu = cpu_time();
        self.user.clear();
        self.has_complained = false;
        self.uri.clear();
        self.uri.extend_from_slice(request.field(Field::ScriptName));
        let query = request.field(Field::Query);
        if !query.is_empty() {
            self.uri.push(b'?');
            self.uri.extend_from_slice(query);
        }
        board.set_request(request.field(Field::Method), &self.uri);
        board.set_details(request.field(Field::ScriptFilename), b"", request.body_len());
    }

    /// Its user is known.
    pub fn name_user(&mut self, user: &[u8], request: &Request, board: &Board) {
        self.user.extend_from_slice(user);
        board.set_details(request.field(Field::ScriptFilename), user, request.body_len());
    }

    /// It ends: says what it cost, to the front and on the board.
    pub fn end(&self, request: &Request, board: &Board, job: &mut Job, status: u16) {
        let now = cpu_time();
        let [user_cpu, system_cpu] = [0, 1].map(|n| now[n].saturating_sub(self.cpu[n]));
        let took = tokamak_cost::now().saturating_sub(self.claimed_at);
        board.set_cost(user_cpu + system_cpu, took);
        let usage = Usage {
            user_cpu,
            system_cpu,
            memory: engine::memory(),
            status,
            script: request.field(Field::ScriptFilename),
            uri: request.field(Field::ScriptName),
            user: &self.user,
        };
        // An error means that the sender of the request has closed its pipe: it no longer wants
        // these figures, and the worker goes on.
        let _ = job.usage(&usage);
    }

    /// Says something about the request to its sender, if there is a job for that, and to standard
    /// error. False: the client has gone.
    pub fn complain(&mut self, level: Level, message: &[u8], to: Option<&mut Job>) -> bool {
        let mut heard = true;
        if let Some(job) = to.filter(|_| !message.is_empty()) {
            let between: &[u8] = if self.has_complained { b"; " } else { b"" };
            self.has_complained = true;
            heard = job.write_stderr(between).and_then(|()| job.write_stderr(message)).is_ok();
        }
        if self.is_caught && level >= self.log_level {
            write_error(&[level.name_of_fpm().as_bytes(), b": ", message, b"\n"].concat());
        }
        heard
    }

    /// Tells the supervisor that the request's output is complete. It wakes up for it, so only if
    /// something was written.
    pub fn flush_output(&self, board: &Board) {
        if self.is_caught && (has_unread_output() || board.has_unfinished_line()) {
            write_error(FLUSH);
        }
    }
}

fn write_error(text: &[u8]) {
    // If standard error cannot be written to, there is no other place to report that, and the
    // request must not fail for it.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text);
}

/// Whether the pipes behind standard output and error may hold something. The board is asked after
/// that: what is not in them any more, the supervisor had noted there before it read it.
fn has_unread_output() -> bool {
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().any(|fd| {
        let mut count: c_int = 0;
        // SAFETY: the call fills the number, or fails for something that is no pipe any more.
        unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut count) != 0 || count != 0 }
    })
}

/// User and system time of this process, in microseconds.
fn cpu_time() -> [u64; 2] {
    // SAFETY: `rusage` is plain data, filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    [usage.ru_utime, usage.ru_stime]
        .map(|time| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64)
}
