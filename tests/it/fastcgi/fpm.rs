//! php-fpm processes that a test kills and starts again, each with a name that its answers tell.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Kind, Process, Setup, eventually, is_root, php_fpm};
use crate::operate::kill;

/// Far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// One php-fpm with one pool.
pub struct Fpm {
    /// What its answers begin with.
    pub name: String,
    process: Option<Process>,
    directory: TempDir,
}

impl Fpm {
    /// Starts it. It has `children` processes.
    pub fn start(name: &str, children: usize) -> Fpm {
        Fpm::start_with(name, children, "")
    }

    /// The same with more lines in its pool.
    pub fn start_with(name: &str, children: usize, lines: &str) -> Fpm {
        let directory = tempfile::Builder::new().prefix("tokamak-fpm-").tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let user = if is_root() { "user = www-data\ngroup = www-data\n" } else { "" };
        let configuration = format!(
            "[global]\nerror_log = /dev/stderr\ndaemonize = no\nprocess_control_timeout = 10s\n\
             [{name}]\nlisten = \
                {}\nlisten.mode = 0666\n{user}\
             pm = static\npm.max_children = {children}\nenv[POOL] = {name}\nping.path = /ping\n\
             {lines}",
            directory.path().join("socket").display()
        );
        fs::write(directory.path().join("fpm.conf"), configuration).unwrap();
        let mut fpm = Fpm { name: name.into(), process: None, directory };
        fpm.restart();
        fpm
    }

    /// Where it listens, as the configuration has it.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Ends all its processes at once, as a crash of the machine would.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill_group();
            assert!(process.wait(PATIENCE).is_some());
        }
        let _ = fs::remove_file(self.socket());
    }

    /// Lets its processes finish what they have, and starts new ones. Returns when they are there.
    pub fn reload(&self) {
        let starts = || {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
            log.matches("ready to handle connections").count()
        };
        eventually(PATIENCE, || (starts() > 0).then_some(())).expect("php-fpm has started");
        let before = starts();
        kill("USR2", self.process.as_ref().expect("it runs").pid().into());
        eventually(PATIENCE, || (starts() > before).then_some(())).expect("php-fpm reloads");
    }

    /// Starts it again after that.
    pub fn restart(&mut self) {
        let file = |name: &str| self.directory.path().join(name);
        let arguments =
            ["--nodaemonize".into(), "--fpm-config".into(), file("fpm.conf").display().to_string()];
        let process = Process::start(&php_fpm(), &arguments, &[], &file("log"));
        self.process = Some(process);
        eventually(PATIENCE, || self.socket().exists().then_some(())).expect("php-fpm listens");
    }
}

/// So many of them, called `a`, `b`, …
pub fn several(count: usize, children: usize) -> Vec<Fpm> {
    (0..count as u8).map(|nth| Fpm::start(&char::from(b'a' + nth).to_string(), children)).collect()
}

/// A server that sends its scripts to all of them; `lines` are more lines of its upstream.
pub fn in_front_of(pools: &[Fpm], lines: &str) -> Setup {
    let addresses: Vec<String> =
        pools.iter().map(|pool| format!("\"{}\"", pool.address())).collect();
    Setup::new(Kind::Fastcgi)
        .upstream(&format!("address = [{}]\n{lines}", addresses.join(", ")))
        .site_line("upstream = \"app\"")
}
