//! Plays the supervisor and the front to a real worker: one zygote, one worker, one request at a
//! time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokamak_config::{Mode, Site};
use tokamak_supervisor::settings;
use tokamak_sys::channel::{Channel, Watch, bell, poll};
use tokamak_sys::control::{
    FromZygote, Heard, Status, ToZygote, ZYGOTE_ARGUMENT, key, receive, receive_within, send,
};
use tokamak_sys::process::{Child, Program, reap};
use tokamak_sys::queue::record::{Field, Writer};
use tokamak_sys::queue::{Drained, Frame, Geometry, Outcome, Producer, Segment, split_frame};

use crate::listing::Listing;
use crate::{Failure, process};

/// Longest wait for the application to boot, and for a response. With a tenth, a cold boot of a
/// large application would count as a failure; ten times more would make a report that hangs look
/// busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long processes have to end when the report is done.
const END_WITHIN: Duration = Duration::from_secs(5);
/// What the tokens of all requests begin with: no application has it by itself.
const TOKEN: &str = "tkseal7d1f";
const SEGMENT: &str = "tokamak-report";

/// What a request was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// A booted application with one worker.
pub struct Application {
    zygote: Child,
    channel: Channel,
    producer: Producer,
    bell: OwnedFd,
    site: Site,
    pid: u32,
    instance: u32,
    requests: u32,
}

impl Application {
    /// Boots it as the site says.
    pub fn start(php: &Path, site: &Site) -> Result<Application, Failure> {
        let segment =
            Arc::new(Segment::create(SEGMENT, Geometry::new(1, 4, 1, 128 << 10, 1 << 20))?);
        let bell = bell()?;
        let (channel, theirs) = Channel::pair()?;
        let mut pairs = settings::settings(site).map_err(|error| Failure(error.to_string()))?;
        pairs.push((key::REPORT.to_owned(), TOKEN.to_owned()));
        let (environment, hidden) = settings::environment_of_php(site, None, std::env::vars_os());
        pairs.extend(hidden);
        // The report reads what the system says of the worker.
        pairs.push((key::DUMPABLE.to_owned(), String::new()));
        let program = Program {
            arguments: &[ZYGOTE_ARGUMENT],
            environment: &environment,
            fds: &[theirs.as_fd(), segment.fd(), bell.as_fd()],
            ..Program::new(php)
        };
        let zygote = program.spawn()?;
        send(&channel, &ToZygote::Settings(pairs), &[])?;
        let producer = Producer::new(segment, 0, Arc::default());
        let site = site.clone();
        let mut application =
            Application { zygote, channel, producer, bell, site, pid: 0, instance: 0, requests: 0 };
        match application.receive()? {
            FromZygote::Ready { .. } => application.spawn()?,
            FromZygote::Unsealable { reason } => {
                return Err(Failure(format!("no image can be taken: {reason}")));
            }
            other => return Err(unexpected(other)),
        }
        Ok(application)
    }

    /// The worker's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// CPU nanoseconds that the worker has used for the requests so far.
    pub fn cpu(&self) -> u64 {
        // What it does after a response is complete belongs to the request.
        std::thread::sleep(Duration::from_millis(20));
        process::cpu(self.pid)
    }

    /// Requests a target, with a token of its own; answers the status.
    pub fn get(&mut self, target: &str) -> Result<u16, Failure> {
        self.requests += 1;
        let token = format!("{TOKEN}{:06}", self.requests);
        let mark = if target.contains('?') { '&' } else { '?' };
        let target = format!("{target}{mark}tokamak_seal={token}");
        self.exchange(&self.record("GET", &target, &token), &mut Vec::new())
    }

    /// Requests a target as it is; answers status and body.
    pub fn answer(&mut self, target: &str) -> Result<Answer, Failure> {
        let mut body = Vec::new();
        let status = self.exchange(&self.record("GET", target, ""), &mut body)?;
        Ok(Answer { status, body })
    }

    /// What is there now.
    pub fn state(&mut self) -> Result<Listing, Failure> {
        let mut text = Vec::new();
        let record = self.record("STATE", "/", "");
        let status = self.exchange(&record, &mut text)?;
        let listing = Some(text).filter(|_| status == 200).and_then(|text| Listing::read(&text));
        let mut listing = listing.ok_or_else(|| {
            Failure("the worker cannot be looked at; the reason is in the log above".to_owned())
        })?;
        process::add(&mut listing, self.pid);
        Ok(listing)
    }

    fn spawn(&mut self) -> Result<(), Failure> {
        self.instance += 1;
        send(&self.channel, &ToZygote::Spawn { index: 0, instance: self.instance }, &[])?;
        match self.receive()? {
            FromZygote::Spawned { pid, .. } => self.pid = pid,
            other => return Err(unexpected(other)),
        }
        Ok(())
    }

    fn receive(&self) -> Result<FromZygote, Failure> {
        match receive_within(&self.channel, Some(PATIENCE))? {
            Heard::Message(message, _) => Ok(message),
            Heard::Closed => {
                Err(Failure("the application did not start; the reason is in the log above".into()))
            }
            Heard::Nothing => {
                Err(Failure(format!("the application did not start within {PATIENCE:?}")))
            }
        }
    }

    fn record(&self, method: &str, target: &str, token: &str) -> Vec<u8> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let root = &self.site.root;
        let own = Path::new(path.trim_start_matches('/'));
        let is_script = own.extension().is_some_and(|end| end == "php") && root.join(own).is_file();
        let index = self.site.index.first().map_or("index.php", String::as_str);
        let script = match &self.site.front_controller {
            _ if is_script => own,
            Some(name) => Path::new(name),
            None => Path::new(index),
        };
        let (file, name) = (root.join(script), format!("/{}", script.display()));
        let (file, root) = (file.to_string_lossy(), root.to_string_lossy());
        let mut writer = Writer::new();
        for field in Field::ALL {
            let value = match field {
                Field::Method => method,
                Field::Uri => target,
                Field::Query => query,
                Field::ScriptFilename => &file,
                Field::ScriptName | Field::DocumentUri => &name,
                Field::DocumentRoot => &root,
                Field::ServerName => "localhost",
                Field::ServerAddr | Field::RemoteAddr => "127.0.0.1",
                Field::ServerPort => "80",
                Field::RemotePort => "40000",
                Field::Protocol => "HTTP/1.1",
                Field::Scheme => "http",
                Field::PathInfo | Field::ContentType | Field::ContentLength => "",
            };
            writer.field(*field, value.as_bytes());
        }
        writer.header(b"host", b"localhost");
        if !token.is_empty() {
            writer.header(b"cookie", format!("tokamak_seal={token}").as_bytes());
            writer.header(b"x-tokamak-seal", token.as_bytes());
        }
        writer.bytes().to_vec()
    }

    /// Sends one request and waits until its worker is done with it.
    fn exchange(&mut self, record: &[u8], body: &mut Vec<u8>) -> Result<u16, Failure> {
        let full = |_| Failure("the request is too long for the queue".to_owned());
        let (id, _) = self.producer.submit(record, 0, &[]).map_err(full)?;
        self.producer.wake_owed();
        let (mut frames, mut status) = (Vec::new(), 0);
        let until = Instant::now() + PATIENCE;
        loop {
            let drained = self.producer.drain(id, &mut frames).map_err(|_| spoiled())?;
            let mut rest = &frames[..];
            while !rest.is_empty() {
                let (frame, tail) = split_frame(rest).map_err(|_| spoiled())?;
                match frame {
                    Frame::Head(head) => status = head.status,
                    Frame::Body(bytes) => body.extend_from_slice(bytes),
                    Frame::Interim(_) | Frame::Stderr(_) | Frame::Usage(_) | Frame::Trailers(_) => {
                    }
                }
                rest = tail;
            }
            frames.clear();
            if let Drained::Finished { outcome, .. } = drained {
                self.producer.release(id);
                return match outcome {
                    Outcome::Complete => Ok(status),
                    _ => Err(Failure("a response was cut short".to_owned())),
                };
            }
            if Instant::now() > until {
                return Err(Failure(format!("no response within {PATIENCE:?}")));
            }
            self.wait()?;
        }
    }

    fn wait(&mut self) -> Result<(), Failure> {
        self.producer.fall_asleep();
        if self.producer.take_ready().next().is_none() {
            let mut watches = [Watch::read(self.bell.as_fd()), Watch::read(self.channel.as_fd())];
            poll(&mut watches, Some(Duration::from_millis(100)))?;
        }
        self.producer.wake_up();
        match receive(&self.channel)? {
            // It could not undo something and made room for a fresh one: the next request finds the
            // same image.
            Heard::Message(FromZygote::Exited { .. }, _) if self.site.mode == Mode::Sealed => {
                self.spawn()
            }
            Heard::Message(other, _) => Err(unexpected(other)),
            Heard::Closed => {
                Err(Failure("the zygote ended; the reason is in the log above".to_owned()))
            }
            Heard::Nothing => Ok(()),
        }
    }
}

fn spoiled() -> Failure {
    Failure("a response was not understood".to_owned())
}

fn unexpected(message: FromZygote) -> Failure {
    Failure(match message {
        FromZygote::Failed { message } => message,
        FromZygote::Exited { status: Status::Code(code), .. } => {
            format!("the worker ended with status {code}; the reason is in the log above")
        }
        FromZygote::Exited { status: Status::Signal(number), .. } => {
            format!("the worker was ended by signal {number}")
        }
        FromZygote::Outdated { reason, .. } => {
            format!("the application changed meanwhile: {reason}")
        }
        other => format!("the zygote said {other:?}"),
    })
}

impl Drop for Application {
    fn drop(&mut self) {
        // A zygote that cannot hear it is killed below.
        let _: io::Result<()> = send(&self.channel, &ToZygote::Quit, &[]);
        let until = Instant::now() + END_WITHIN;
        while Instant::now() < until {
            if reap().is_some_and(|(pid, _)| pid == self.zygote.id()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.zygote.kill();
    }
}
