//! Plays the supervisor and the front to a real `tokamak-php`, over a real segment.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokamak_sys::channel::{Channel, Watch, bell, poll};
use tokamak_sys::control::{
    FromZygote, Heard, Signal, Status, ToZygote, ZYGOTE_ARGUMENT, ZYGOTE_CHANNEL, key,
    receive_within, send,
};
use tokamak_sys::queue::record::{Field, Writer};
use tokamak_sys::queue::{
    Drained, Frame, Geometry, Outcome, Producer, Segment, SlotId, split_frame,
};

use extensions::{SCAN_DIRECTORY, scan_directory};

#[path = "../../../../tests/extensions.rs"]
pub mod extensions;

/// Nothing here takes longer, even on a machine that does something else too.
const LIMIT: Duration = Duration::from_secs(60);

/// A site with its scripts, its zygote and the front's end of its queue.
pub struct Site {
    pub directory: TempDir,
    pub zygote: Child,
    pub channel: Channel,
    pub producer: Producer,
    /// The front's, and those of workers behind it.
    bells: Vec<OwnedFd>,
    spawned: u32,
    pub pids: Vec<u32>,
    /// Folders that are to be there as long as the site is.
    pub lasting: Vec<TempDir>,
}

/// What came back.
#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub interim: Vec<(u16, Vec<(String, String)>)>,
    /// The lines of fields that follow the body.
    pub trailers: Vec<u8>,
    /// What was written to the error log of the sender of the request.
    pub complaints: String,
    /// Script, URI and user of the request's account.
    pub account: Option<[String; 3]>,
    pub outcome: Option<Outcome>,
}

impl Response {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// All values of a header, joined.
    pub fn header(&self, name: &str) -> String {
        let found: Vec<_> = self
            .headers
            .iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v.as_str())
            .collect();
        found.join(", ")
    }
}

/// A request to send.
#[derive(Clone)]
pub struct Ask {
    pub method: &'static str,
    pub target: String,
    pub path_info: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub content_type: String,
    pub scheme: &'static str,
}

/// Waits until it is so.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a script has written to a file beside it, as soon as it is there.
pub fn said(site: &Site, name: &str) -> String {
    let file = site.file(name);
    until(&format!("{name}; log: {}", site.log()), || file.exists());
    std::fs::read_to_string(file).unwrap()
}

/// Whether an image of the process can be taken: with AddressSanitizer it would have terabytes.
pub fn can_be_sealed() -> bool {
    std::env::var_os("ASAN_OPTIONS").is_none()
}

pub fn get(target: &str) -> Ask {
    Ask {
        method: "GET",
        target: target.to_owned(),
        path_info: String::new(),
        headers: Vec::new(),
        body: Vec::new(),
        content_type: String::new(),
        scheme: "http",
    }
}

pub fn post(target: &str, content_type: &str, body: &[u8]) -> Ask {
    Ask {
        method: "POST",
        body: body.to_vec(),
        content_type: content_type.to_owned(),
        ..get(target)
    }
}

impl Ask {
    pub fn header(mut self, name: &str, value: &str) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Site {
    /// Writes the files, starts the zygote and `workers` workers.
    pub fn start(files: &[(&str, &str)], settings: &[(&str, &str)], workers: u16) -> Site {
        Site::start_in(&[], files, settings, workers)
    }

    /// The same, with more in its environment.
    pub fn start_in(
        environment: &[(&str, &str)],
        files: &[(&str, &str)],
        settings: &[(&str, &str)],
        workers: u16,
    ) -> Site {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(directory.path().join(name), content).unwrap();
        }
        let geometry = Geometry::new(1, 64, 16, 64 << 10, 64 << 10);
        let geometry = match settings.contains(&("mode", "async")) {
            true => geometry.with_doorbells(),
            false => geometry,
        };
        let bells: Vec<_> = (0..geometry.bells()).map(|_| bell().unwrap()).collect();
        let segment =
            Segment::create("test", geometry).and_then(|segment| segment.with_doorbells(&bells));
        let segment = Arc::new(segment.unwrap());
        let (channel, theirs) = Channel::pair().unwrap();
        let log = File::create(directory.path().join("error.log")).unwrap();
        let mut fds = vec![theirs.as_fd().as_raw_fd(), segment.fd().as_raw_fd()];
        fds.extend(bells.iter().map(AsRawFd::as_raw_fd));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tokamak-php"));
        command.arg(ZYGOTE_ARGUMENT).env_clear().env("POOL_VARIABLE", "from the pool");
        command.env(SCAN_DIRECTORY, scan_directory()).envs(environment.iter().copied());
        // For a program built with TOKAMAK_SANITIZE.
        for name in ["ASAN_OPTIONS", "UBSAN_OPTIONS", "USE_ZEND_ALLOC"] {
            command.envs(std::env::var(name).map(|value| (name, value)));
        }
        command.stdin(Stdio::null()).stderr(log);
        // SAFETY: only dup2 and fcntl between fork and exec.
        unsafe { command.pre_exec(move || place(&mut fds)) };
        let zygote = command.spawn().unwrap();
        drop(theirs);
        let root = directory.path().to_str().unwrap().to_owned();
        let mut pairs = vec![
            (key::SITE.to_owned(), "test.site".to_owned()),
            (key::ROOT.to_owned(), root.clone()),
        ];
        pairs.extend(settings.iter().map(|(k, v)| ((*k).to_owned(), v.replace("%root%", &root))));
        send(&channel, &ToZygote::Settings(pairs), &[]).unwrap();
        let producer = Producer::new(segment, 0, Arc::default());
        let mut site = Site {
            directory,
            zygote,
            channel,
            producer,
            bells,
            spawned: 0,
            pids: Vec::new(),
            lasting: Vec::new(),
        };
        match site.hear() {
            FromZygote::Ready { .. } => {}
            other => panic!("{other:?}\n{}", site.log()),
        }
        for _ in 0..workers {
            site.spawn();
        }
        site
    }

    /// One classic worker.
    pub fn classic(files: &[(&str, &str)]) -> Site {
        Site::start(files, &[("mode", "classic")], 1)
    }

    /// One worker that runs `worker.php`.
    pub fn worker(script: &str, settings: &[(&str, &str)]) -> Site {
        let mut all = vec![("mode", "worker"), ("script", "%root%/worker.php")];
        all.extend_from_slice(settings);
        Site::start(&[("worker.php", script)], &all, 1)
    }

    /// All of them at once, whose bodies come in pieces beside each other, each as long as it says.
    pub fn ask_all_in_pieces(
        &mut self,
        asks: &[Ask],
        mut length: impl FnMut() -> usize,
    ) -> Vec<Response> {
        let mut handed: Vec<_> = asks
            .iter()
            .map(|ask| {
                let record = self.record(ask);
                let handed = self.producer.submit(&record, ask.body.len() as u64, &[]).unwrap();
                self.producer.wake_owed();
                handed
            })
            .collect();
        // Until nothing more is taken: what is left is fed to who is waited for.
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for ((id, fed), ask) in handed.iter_mut().zip(asks) {
                let rest = &ask.body[*fed..];
                let taken = self.producer.feed(*id, &rest[..rest.len().min(length())]);
                *fed += taken;
                goes_on |= taken > 0;
            }
        }
        let pairs = handed.into_iter().zip(asks);
        pairs.map(|(handed, ask)| self.collect(handed, &ask.body, |_| false)).collect()
    }

    /// All of them at once.
    pub fn ask_all(&mut self, asks: &[Ask]) -> Vec<Response> {
        let handed: Vec<_> = asks.iter().map(|ask| self.submit(ask)).collect();
        let pairs = handed.into_iter().zip(asks);
        pairs.map(|(handed, ask)| self.collect(handed, &ask.body, |_| false)).collect()
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.file("error.log")).unwrap_or_default()
    }

    /// Waits until the log says it.
    pub fn wait_for_log(&self, text: &str) -> String {
        let until = Instant::now() + LIMIT;
        while Instant::now() < until {
            if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no line with {text:?} in the log:\n{}", self.log());
    }

    pub fn hear(&self) -> FromZygote {
        match receive_within(&self.channel, Some(LIMIT)).unwrap() {
            Heard::Message(message, _) => message,
            other => panic!("{other:?}\n{}", self.log()),
        }
    }

    /// How the next worker ended.
    pub fn hear_exit(&self) -> Status {
        match self.hear() {
            FromZygote::Exited { status, .. } => status,
            other => panic!("{other:?}"),
        }
    }

    pub fn spawn(&mut self) -> u32 {
        self.spawn_with_output().0
    }

    /// A new worker, and the reading ends of its output.
    pub fn spawn_with_output(&mut self) -> (u32, Vec<OwnedFd>) {
        let index = self.spawned as u16;
        self.spawned += 1;
        let instance = self.spawned;
        send(&self.channel, &ToZygote::Spawn { index, instance }, &[]).unwrap();
        match receive_within(&self.channel, Some(LIMIT)).unwrap() {
            Heard::Message(FromZygote::Spawned { pid, .. }, output) => {
                self.pids.push(pid);
                (pid, output)
            }
            other => panic!("{other:?}"),
        }
    }

    /// What rings the worker at this place, in async mode.
    pub fn doorbell(&self, index: usize) -> BorrowedFd<'_> {
        self.bells[1 + index].as_fd()
    }

    pub fn kill(&self, index: u16, signal: Signal) {
        let instance = u32::from(index) + 1;
        send(&self.channel, &ToZygote::Kill { index, instance, signal }, &[]).unwrap();
    }

    fn record(&self, ask: &Ask) -> Vec<u8> {
        let (path, query) = ask.target.split_once('?').unwrap_or((&ask.target, ""));
        let root = self.root().to_str().unwrap();
        let length = if ask.body.is_empty() { String::new() } else { ask.body.len().to_string() };
        let mut writer = Writer::new();
        for field in Field::ALL {
            let value = match field {
                Field::Method => ask.method.to_owned(),
                Field::Uri => {
                    format!(
                        "{path}{}{}",
                        ask.path_info,
                        ask.target.strip_prefix(path).unwrap_or("")
                    )
                }
                Field::Query => query.to_owned(),
                Field::ScriptFilename => format!("{root}{path}"),
                Field::ScriptName => path.to_owned(),
                Field::PathInfo => ask.path_info.clone(),
                Field::DocumentRoot => root.to_owned(),
                Field::DocumentUri => format!("{path}{}", ask.path_info),
                Field::ServerName => "test.site".to_owned(),
                Field::ServerAddr | Field::RemoteAddr => "127.0.0.1".to_owned(),
                Field::ServerPort => "8080".to_owned(),
                Field::RemotePort => "40000".to_owned(),
                Field::Protocol => "HTTP/1.1".to_owned(),
                Field::Scheme => ask.scheme.to_owned(),
                Field::ContentType => ask.content_type.clone(),
                Field::ContentLength => length.clone(),
            };
            writer.field(*field, value.as_bytes());
        }
        writer.header(b"Host", b"test.site:8080");
        for (name, value) in &ask.headers {
            writer.header(name.as_bytes(), value.as_bytes());
        }
        writer.bytes().to_vec()
    }

    /// Hands a request over; the answer comes with [`Site::collect`].
    pub fn submit(&mut self, ask: &Ask) -> (SlotId, usize) {
        let record = self.record(ask);
        self.submit_record(&record, &ask.body)
    }

    pub fn submit_record(&mut self, record: &[u8], body: &[u8]) -> (SlotId, usize) {
        let handed = self.producer.submit(record, body.len() as u64, body).unwrap();
        self.producer.wake_owed();
        handed
    }

    /// What a response says until `enough` says so, or it is finished.
    pub fn collect(
        &mut self,
        (id, mut fed): (SlotId, usize),
        body: &[u8],
        enough: impl Fn(&Response) -> bool,
    ) -> Response {
        let mut response = Response::default();
        let mut frames = Vec::new();
        let until = Instant::now() + LIMIT;
        loop {
            fed += self.producer.feed(id, &body[fed..]);
            let drained = self.producer.drain(id, &mut frames).unwrap();
            response.take(&mut frames);
            if let Drained::Finished { outcome, .. } = drained {
                response.outcome = Some(outcome);
                self.producer.release(id);
                return response;
            }
            if enough(&response) {
                return response;
            }
            if Instant::now() >= until {
                let ended = receive_within::<FromZygote>(&self.channel, Some(Duration::ZERO));
                panic!("no answer; so far {response:?}; {ended:?}\n{}", self.log());
            }
            self.producer.fall_asleep();
            if self.producer.take_ready().next().is_none() {
                poll(&mut [Watch::read(self.bells[0].as_fd())], Some(Duration::from_millis(100)))
                    .unwrap();
            }
            self.producer.wake_up();
        }
    }

    pub fn ask(&mut self, ask: Ask) -> Response {
        let handed = self.submit(&ask);
        self.collect(handed, &ask.body, |_| false)
    }

    pub fn get(&mut self, target: &str) -> Response {
        self.ask(get(target))
    }
}

impl Response {
    fn take(&mut self, frames: &mut Vec<u8>) {
        let own = |headers: &mut dyn Iterator<Item = (&[u8], &[u8])>| {
            headers
                .map(|(n, v)| {
                    (
                        String::from_utf8_lossy(n).into_owned(),
                        String::from_utf8_lossy(v).into_owned(),
                    )
                })
                .collect::<Vec<_>>()
        };
        let mut rest = &frames[..];
        while !rest.is_empty() {
            let (frame, tail) = split_frame(rest).unwrap();
            match frame {
                Frame::Head(head) => {
                    self.status = head.status;
                    self.headers = own(&mut head.headers());
                }
                Frame::Interim(head) => self.interim.push((head.status, own(&mut head.headers()))),
                Frame::Body(bytes) => self.body.extend_from_slice(bytes),
                Frame::Trailers(lines) => self.trailers.extend_from_slice(lines),
                Frame::Stderr(bytes) => self.complaints += &String::from_utf8_lossy(bytes),
                Frame::Usage(usage) => {
                    let texts = [usage.script, usage.uri, usage.user];
                    self.account =
                        Some(texts.map(|text| String::from_utf8_lossy(text).into_owned()));
                }
            }
            rest = tail;
        }
        frames.clear();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = send(&self.channel, &ToZygote::Quit, &[]);
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            if let Ok(Some(_)) = self.zygote.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.zygote.kill();
        let _ = self.zygote.wait();
    }
}

/// Puts the descriptors at 3, 4, …; first above these, as one of them may be in another's place.
fn place(fds: &mut [RawFd]) -> io::Result<()> {
    let end = ZYGOTE_CHANNEL + fds.len() as RawFd;
    for fd in &mut *fds {
        // SAFETY: takes numbers.
        *fd = unsafe { libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, end) };
        if *fd < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    for (target, fd) in (ZYGOTE_CHANNEL..).zip(&*fds) {
        // SAFETY: takes numbers.
        if unsafe { libc::dup2(*fd, target) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// CPU nanoseconds that the process has used.
pub fn cpu(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
