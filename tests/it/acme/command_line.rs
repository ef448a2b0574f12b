//! `tokamak serve --domain`: one command, and nothing else is set.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::authority::{Pebble, Traits};
use super::{NAME, PATIENCE, Plan};
use crate::harness::{Connection, Process, eventually, get, is_root, program};

/// What a page says of the request, and of the process that runs it.
const SCRIPT: &str = "<?php header('Content-Type: application/json'); echo json_encode([
    'uid' => posix_geteuid(), 'groups' => posix_getgroups(), 'gid' => posix_getegid(),
    'https' => $_SERVER['HTTPS'] ?? 'off', 'host' => $_SERVER['HTTP_HOST']]);";

/// A server that was started by this command.
struct Served {
    plan: Plan,
    pebble: Pebble,
    process: Process,
}

impl Served {
    /// `None` if there is no pebble.
    fn start(more: &[&str]) -> Option<Served> {
        let plan = Plan::new();
        let pebble = Pebble::start(&plan, Traits::default())?;
        let site = plan.folder.path().join("shop");
        fs::create_dir(&site).unwrap();
        fs::write(site.join("index.php"), SCRIPT).unwrap();
        fs::write(site.join("file.txt"), "a file\n").unwrap();
        let (plain, tls) = (plan.plain.to_string(), plan.tls.to_string());
        let arguments = [
            &["serve", "--domain", NAME, "--listen", &plain, "--listen-tls", &tls][..],
            more,
            &[site.to_str().unwrap()],
        ];
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let environment = [
            ("TOKAMAK_STATE_DIR", text(&plan.state())),
            ("TOKAMAK_ACME_DIRECTORY", pebble.directory()),
            ("TOKAMAK_CONTROL", text(&plan.folder.path().join("control"))),
            ("SSL_CERT_FILE", text(&plan.folder.path().join("localhost.pem"))),
        ];
        let process = Process::start(
            &program(),
            &arguments.concat().iter().map(|word| word.to_string()).collect::<Vec<_>>(),
            &environment.map(|(name, value)| (name.to_owned(), value)),
            &plan.folder.path().join("server.log"),
        );
        Some(Served { plan, pebble, process })
    }

    fn log(&self) -> String {
        fs::read_to_string(self.plan.folder.path().join("server.log")).unwrap_or_default()
    }

    /// What curl gets for a path over TLS, with the authority's root alone.
    fn page(&self, path: &str) -> Option<String> {
        let port = self.plan.tls.port();
        let output = Command::new("curl")
            .args(["-sS", "-m", "10", "--cacert"])
            .arg(self.pebble.root())
            .args(["--resolve", &format!("{NAME}:{port}:127.0.0.1")])
            .arg(format!("https://{NAME}:{port}{path}"))
            .output()
            .expect("curl runs");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What PHP says, as soon as there is a certificate.
    #[track_caller]
    fn server_vars(&mut self) -> Value {
        let page = eventually(PATIENCE, || {
            assert!(self.process.ended().is_none(), "it ended: {}", self.log());
            self.page("/")
        });
        let page = page.unwrap_or_else(|| panic!("no page over TLS: {}", self.log()));
        serde_json::from_str(&page).unwrap_or_else(|error| panic!("{error}: {page}"))
    }

    /// The users that the front, and all processes below the supervisor but the one that gets
    /// certificates, run as.
    fn users(&self) -> (u64, Vec<u64>) {
        let output = Command::new(program())
            .args(["status", "--json", "--control"])
            .arg(self.plan.folder.path().join("control"))
            .output()
            .expect("tokamak can be started");
        assert!(output.status.success(), "{output:?}");
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let workers = status["pools"][0]["workers"].as_array().expect("workers");
        let user = |pid: &Value| u64::from(fs::metadata(format!("/proc/{pid}")).unwrap().uid());
        (user(&status["front_pid"]), workers.iter().map(|worker| user(&worker["pid"])).collect())
    }
}

/// Number of a user, and of its group.
fn ids(name: &str) -> (u64, u64) {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let found = users.lines().map(fields).find(|fields| fields[0] == name);
    let found = found.unwrap_or_else(|| panic!("there is no user {name}"));
    (found[2].parse().unwrap(), found[3].parse().unwrap())
}

/// Who serves: the user of the tests, unless that is root.
fn expected(name: &str) -> (u64, u64) {
    if is_root() {
        return ids(name);
    }
    let own = fs::metadata("/proc/self").unwrap();
    (own.uid().into(), own.gid().into())
}

/// A certificate, a redirect, and a user that is not root: all from one line.
#[test]
fn a_domain_is_all_that_is_said() {
    let Some(mut served) = Served::start(&[]) else { return };
    let vars = served.server_vars();
    assert_eq!((&vars["https"], &vars["host"]), (&"on".into(), &served.host().into()));
    assert_eq!(served.page("/file.txt").as_deref(), Some("a file\n"));
    // The other listener sends clients to the first, with path and query.
    for (method, target) in [("GET", "/"), ("GET", "/file.txt?a=b%20c"), ("POST", "/x")] {
        let mut request =
            get(target).header("Host", &format!("{NAME}:{}", served.plan.plain.port()));
        request.method = method.into();
        let moved = Connection::open(served.plan.plain).exchange(&request).expect(308);
        let expected = format!("https://{}{target}", served.host());
        assert_eq!(moved.header("location"), Some(&*expected), "{method}");
    }
    served.runs_as(&vars, "www-data");
    // Keys are for the supervisor's user alone, and not for those who serve.
    let of = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (u64::from(found.uid()), found.permissions().mode() & 0o777)
    };
    let own = u64::from(fs::metadata("/proc/self").unwrap().uid());
    assert_eq!(of(&served.plan.state()), (own, 0o700));
    assert_eq!(of(&served.plan.certificate()), (own, 0o600));
}

#[test]
fn another_user_may_serve_it() {
    if !is_root() {
        return eprintln!("not tested: only root can become another user");
    }
    let Some(mut served) = Served::start(&["--user", "nobody"]) else { return };
    let vars = served.server_vars();
    served.runs_as(&vars, "nobody");
}

impl Served {
    /// The name with the port for TLS.
    fn host(&self) -> String {
        format!("{NAME}:{}", self.plan.tls.port())
    }

    #[track_caller]
    fn runs_as(&self, vars: &Value, name: &str) {
        let (user, group) = expected(name);
        assert_eq!((&vars["uid"], &vars["gid"]), (&user.into(), &group.into()), "{vars}");
        if is_root() {
            let groups = vars["groups"].as_array().expect("groups");
            assert!(!groups.contains(&0.into()), "nothing is left of root: {vars}");
        }
        let (front, workers) = self.users();
        assert_eq!(front, user, "the front");
        assert!(!workers.is_empty() && workers.iter().all(|worker| *worker == user), "{workers:?}");
    }
}
