//! The start: whatever is opened before the loop runs, in the order in which it is needed.

use std::os::fd::AsFd;

use tokamak_config::Server;
use tokamak_sys::process;
use tokamak_sys::signal::Signals;

use super::host::{Host, log_to};
use super::questions::Questions;
use super::{Failure, PidFile, Setup, Supervisor, failure};
use crate::acme::Acme;
use crate::admin_socket::AdminSocket;
use crate::bounds;
use crate::certificates::Certificates;
use crate::client;
use crate::control_socket::ControlSocket;
use crate::emergency::Emergency;
use crate::fleet::Fleet;
use crate::front_questions::FrontQuestions;
use crate::generation::Patience;
use crate::identities::Identities;
use crate::listen::Listeners;
use crate::log::{self, Level};
use crate::notify;
use crate::programs::Programs;
use crate::quic::{Quic, is_udp};
use crate::settings;
use crate::shared_tickets::SharedTickets;
use crate::sockets::Sockets;
use crate::upgrade::{Origin, Predecessor, STDERR};
use crate::users::UserFilesWatch;

/// Serves until it is told to stop. The calling process must have a single thread.
///
/// # Errors
/// Fails if the server cannot start, and says so to the version that it would have replaced. Later
/// failures are logged and handled.
pub fn serve(setup: Setup) -> Result<(), Failure> {
    if let Some(fpm) = &setup.server.fpm {
        log::write_as_fpm(&fpm.global);
    }
    let predecessor = Predecessor::find().map_err(failure)?;
    let refusal = predecessor.as_ref().map(Predecessor::refusal).transpose().map_err(failure)?;
    let outcome = start(setup, predecessor);
    if let (Err(failure), Some(refusal)) = (&outcome, refusal) {
        refusal.tell(&failure.0);
    }
    outcome
}

fn start(setup: Setup, mut predecessor: Option<Predecessor>) -> Result<(), Failure> {
    let mut programs = Programs::default();
    programs.open(&setup.server, &*setup.php).map_err(failure)?;
    let origin = Origin::find();
    let mut certificates = Certificates::new(&setup.server.state_dir, tokamak_cost::now());
    certificates.load(&setup.server).map_err(failure)?;
    let mut users = UserFilesWatch::default();
    users.load(&setup.server).map_err(failure)?;
    // Before the sockets for clients: who can connect there can ask the admin listener, too.
    let admin = AdminSocket::open(setup.server.admin.as_ref(), predecessor.as_mut());
    let admin = admin.map_err(failure)?;
    let (quic, listeners) = match &mut predecessor {
        Some(predecessor) => {
            let quic = Quic::adopt(predecessor.take_quic());
            (quic, Listeners::adopt(predecessor.take_listeners()))
        }
        None => {
            let (udp, others) = process::passed_sockets().into_iter().partition(is_udp);
            (Quic::with_passed(udp), Listeners::with_passed(others))
        }
    };
    let (mut quic, mut listeners) = (quic.map_err(failure)?, listeners.map_err(failure)?);
    let addresses = [&setup.server.listen[..], &setup.server.listen_tls].concat();
    listeners.open(&addresses).map_err(failure)?;
    let mut sockets = Sockets::default();
    sockets.open(&setup.server).map_err(failure)?;
    let resolved = settings::resolve(&setup.server).map_err(failure)?;
    let identities = Identities::of(&resolved).map_err(failure)?;
    let server = listeners.with_real_addresses(&setup.server).map_err(failure)?;
    quic.open(&server).map_err(failure)?;
    let default_path = match server.listen.iter().chain(&server.listen_tls).next() {
        Some(address) => client::default_path(*address),
        None if setup.server.fpm.is_some() => client::fpm_path(),
        None => return Err(failure("there is no address to listen on")),
    };
    let path = setup.server.control.clone().unwrap_or(default_path);
    if setup.server.control.is_none() && client::is_foreign(&path) {
        return Err(failure(format_args!(
            "the directory of {} belongs to somebody else",
            path.display()
        )));
    }
    let control = ControlSocket::adopt(&path, predecessor.as_mut()).map_err(|error| {
        failure(format_args!("cannot open the control socket {}: {error}", path.display()))
    })?;
    let stderr = match predecessor.as_mut().and_then(|predecessor| predecessor.take(STDERR)) {
        Some(stderr) => stderr,
        None => std::io::stderr().as_fd().try_clone_to_owned().map_err(failure)?,
    };
    log_to(&setup.server, &stderr).map_err(failure)?;
    let _log = log::open();
    if let Some(fpm) = &setup.server.fpm {
        bounds::of_master(&fpm.global).map_err(|message| failure(message.text))?;
    }
    raise_open_files(&setup.server);
    // Each kernel can; what emulates one for another processor may not.
    if let Err(error) = process::adopt_orphans() {
        log::line(
            Level::Warn,
            format_args!(
                "ends of workers whose zygote has died will not be noticed: the system refuses \
                PR_SET_CHILD_SUBREAPER: {error}"
            ),
        );
    }
    // It holds the settings of all sites, and may run as the same user as their scripts.
    process::forbid_tracing();
    let mut warnings = crate::identities::warnings(&setup.server, process::is_root());
    // A user that does not exist is an error below, where it is first needed.
    warnings.extend(crate::identities::verify(&setup.server).unwrap_or_default());
    for warning in warnings.into_iter().chain(tokamak_config::warnings(&setup.server)) {
        log::line(Level::Warn, format_args!("{warning}"));
    }
    let signals = Signals::take().map_err(failure)?;
    let pid_file = setup.server.pid_file.clone().filter(|_| predecessor.is_none());
    let pid_file = PidFile::write(pid_file).map_err(failure)?;
    log::line(
        Level::Info,
        format_args!("started pid={} control={}", std::process::id(), control.path().display()),
    );
    let now = tokamak_cost::now();
    let acme = Acme::new(setup.server.state_dir.clone());
    let mut fleet = Fleet::new(setup.server.clone());
    let mut host = Host {
        setup,
        origin,
        programs,
        stderr,
        listeners,
        quic,
        certificates,
        users,
        sockets,
        control,
        admin,
        for_fronts: Vec::new(),
        folder: None,
    };
    let patience = if predecessor.is_some() { Patience::Careful } else { Patience::Eager };
    fleet.start(&mut host, (resolved, identities), patience, now).map_err(failure)?;
    let supervisor = Supervisor {
        fleet,
        host,
        signals,
        questions: Questions::default(),
        front_questions: FrontQuestions::default(),
        watchdog: notify::Watchdog::from_environment(),
        started: now,
        drain_at: None,
        announced: false,
        emergency: Emergency::default(),
        shared_tickets: SharedTickets::default(),
        acme,
        certificate_messages: 0,
        pid_file,
        predecessor,
        upgrade: None,
    };
    supervisor.run()
}

/// As many files as this process may open, and a warning if the configuration asks for more.
fn raise_open_files(server: &Server) {
    match process::raise_open_files() {
        Err(error) => {
            log::line(Level::Warn, format_args!("cannot raise the limit of open files: {error}"));
        }
        Ok(files) => {
            let (wanted, most) =
                (server.limits.connections as u64, files.saturating_sub(process::reserve(files)));
            if wanted > most && server.fpm.is_none() {
                log::line(
                    Level::Warn,
                    format_args!(
                        "limits.connections = {wanted} cannot be kept: a process may have {files} \
                        open files (RLIMIT_NOFILE), of which about {most} are for connections; \
                        raise it (ulimit -n, LimitNOFILE= of systemd) or lower limits.connections"
                    ),
                );
            }
        }
    }
}
