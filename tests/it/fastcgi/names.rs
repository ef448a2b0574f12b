//! Addresses behind names, asked of a real name server (dnsmasq).

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::{Kind, Process, Server, Setup, eventually, free_address, php_fpm};
use crate::operate::{reload, status, status_when};

const SOON: Duration = Duration::from_secs(20);

/// A name server that knows what the test tells it. Addresses are of the loopback network, one for
/// each application.
struct NameServer {
    address: SocketAddr,
    process: Option<Process>,
    directory: TempDir,
}

impl NameServer {
    fn start(records: &str) -> NameServer {
        let directory = tempfile::Builder::new().prefix("tokamak-names-").tempdir().unwrap();
        let mut server = NameServer { address: free_address(), process: None, directory };
        server.know(records);
        server
    }

    /// Knows these records, and no longer others; its answers last a second.
    fn know(&mut self, records: &str) {
        self.stop();
        let (ip, port) = (self.address.ip(), self.address.port());
        let file = self.directory.path().join("dnsmasq.conf");
        let settings = format!(
            "log-queries\nlog-facility=-\nport={port}\nlisten-address={ip}\nbind-interfaces\nno-resolv\nno-hosts\nlocal-ttl=1\nlocal=/example/\n\
             user=\npid-file=\n{records}\n"
        );
        fs::write(&file, settings).unwrap();
        let arguments = ["--keep-in-foreground".into(), format!("--conf-file={}", file.display())];
        let log = self.directory.path().join("log");
        self.process = Some(Process::start(Path::new("/usr/sbin/dnsmasq"), &arguments, &[], &log));
        let listens = || std::net::TcpStream::connect(self.address).is_ok().then_some(());
        let said = || fs::read_to_string(&log).unwrap_or_default();
        eventually(SOON, listens)
            .unwrap_or_else(|| panic!("no name server (dnsmasq-base): {}", said()));
    }

    /// Waits until it has been asked twice more, so that its first answer has been taken.
    fn is_asked(&self) {
        let count = || {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            log.lines().filter(|line| line.contains("query[A]")).count()
        };
        let before = count();
        let twice = || (count() >= before + 2).then_some(());
        eventually(SOON, twice).expect("questions to the name server");
    }

    fn stop(&mut self) {
        self.process = None;
    }
}

/// php-fpm on `127.0.0.N`, for several N; its answers say which.
struct Applications {
    port: u16,
    _processes: Vec<Process>,
    _directory: TempDir,
}

fn applications(numbers: std::ops::RangeInclusive<u8>) -> Applications {
    let directory = tempfile::Builder::new().prefix("tokamak-named-").tempdir().unwrap();
    let port = free_address().port();
    let user = if crate::harness::is_root() { "user = www-data\ngroup = www-data\n" } else { "" };
    let start = |number: u8| {
        let file = directory.path().join(format!("{number}.conf"));
        let text = format!(
            "[global]\nerror_log = /dev/stderr\ndaemonize = no\n[app]\nlisten = \
                127.0.0.{number}:{port}\n{user}\
             pm = static\npm.max_children = 2\nenv[POOL] = {number}\n"
        );
        fs::write(&file, text).unwrap();
        let arguments = ["--nodaemonize".into(), "--fpm-config".into(), file.display().to_string()];
        let log = directory.path().join("log");
        let process = Process::start(&php_fpm(), &arguments, &[], &log);
        let address: SocketAddr = format!("127.0.0.{number}:{port}").parse().unwrap();
        let listens = || std::net::TcpStream::connect(address).is_ok().then_some(());
        eventually(SOON, listens).expect("php-fpm listens");
        process
    };
    Applications { port, _processes: numbers.map(start).collect(), _directory: directory }
}

fn in_front_of(names: &NameServer, address: &str) -> Server {
    Setup::new(Kind::Fastcgi)
        .line(&format!("resolver = \"{}\"", names.address))
        .upstream(&format!("address = \"{address}\""))
        .site_line("upstream = \"app\"")
        .start()
}

/// Who answers twelve requests.
fn seen(server: &Server) -> BTreeSet<String> {
    let answer = |_| server.text("/pool.php").split(' ').next().unwrap().to_owned();
    (0..12).map(answer).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn a_host_stands_for_all_its_addresses_as_they_come_and_go() {
    let applications = applications(2..=4);
    let mut names =
        NameServer::start("host-record=app.example,127.0.0.2\nhost-record=app.example,127.0.0.3");
    let server = in_front_of(&names, &format!("app.example:{}", applications.port));
    assert_eq!(seen(&server), set(["2", "3"]));
    names.know("host-record=app.example,127.0.0.3\nhost-record=app.example,127.0.0.4");
    eventually(SOON, || (seen(&server) == set(["3", "4"])).then_some(())).expect("it follows");
    let addresses = status(&server)["upstreams"][0]["addresses"].as_array().unwrap().clone();
    assert!(
        addresses[0]["requests"].as_u64().unwrap() > 6,
        "the one that stays is the same: {addresses:#?}"
    );

    // A name server that is away, or does not know the name any more, changes nothing.
    names.stop();
    server.log_line(&[
        "upstream app: app.example:",
        "cannot be resolved, its addresses stay as they are",
    ]);
    assert_eq!(seen(&server), set(["3", "4"]));
    let refused = reload(&server).unwrap_err();
    assert!(refused.contains("app.example") && refused.contains("cannot be resolved"), "{refused}");
    assert_eq!(seen(&server), set(["3", "4"]));
    names.know("host-record=other.example,127.0.0.2");
    names.is_asked();
    assert_eq!(seen(&server), set(["3", "4"]));
    names.know("host-record=app.example,127.0.0.2");
    eventually(SOON, || (seen(&server) == set(["2"])).then_some(())).expect("it follows again");
    server.log_line(&["upstream app: app.example:", "is resolved again"]);
    reload(&server).unwrap();
    assert_eq!(seen(&server), set(["2"]));
    let failed = server.log().lines().filter(|line| line.contains("ERROR [localhost]")).count();
    assert_eq!(failed, 0, "{}", server.log());
}

#[test]
fn a_service_has_hosts_ports_and_weights() {
    let applications = applications(5..=7);
    let port = applications.port;
    let hosts = "host-record=five.example,127.0.0.5\nhost-record=six.example,127.0.0.6\n\
                 host-record=seven.example,127.0.0.7\n";
    let mut names = NameServer::start(&format!(
        "{hosts}srv-host=_app._tcp.example,five.example,{port},10,3\n\
         srv-host=_app._tcp.example,six.example,{port},10,1\nsrv-host=_app._tcp.example,seven.example,{port},20,1"
    ));
    let server = in_front_of(&names, "srv:_app._tcp.example");
    let count = |name: &str| (0..12).filter(|_| server.text("/pool.php").starts_with(name)).count();
    assert_eq!(
        [count("5"), count("6"), count("7")],
        [9, 3, 0],
        "by weight, and the best priority only"
    );
    names.know(&format!("{hosts}srv-host=_app._tcp.example,seven.example,{port},20,1"));
    eventually(SOON, || (seen(&server) == set(["7"])).then_some(())).expect("it follows");
}

/// An answer that does not fit into a datagram is asked for again by TCP.
#[test]
fn a_long_answer_comes_whole() {
    let applications = applications(100..=100);
    let port = applications.port;
    let record = |number| format!("host-record=app.example,127.0.0.{number}\n");
    let records: String = (100..180).map(record).collect();
    let names = NameServer::start(&records);
    let server = in_front_of(&names, &format!("app.example:{port}"));
    status_when(&server, "all addresses", |status| {
        status["upstreams"][0]["addresses"].as_array().is_some_and(|all| all.len() == 80)
    });
    // Only one of them is there; the others are found out and left out.
    assert_eq!(seen(&server), set(["100"]));
}

#[test]
fn a_name_that_is_unknown_at_the_start_may_come() {
    let applications = applications(8..=8);
    let mut names = NameServer::start("");
    let server = in_front_of(&names, &format!("app.example:{}", applications.port));
    server.log_line(&["upstream app: app.example:", "the name server has no address"]);
    let waiting = std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.get("/pool.php"));
        std::thread::sleep(Duration::from_millis(300));
        names.know("host-record=app.example,127.0.0.8");
        asked.join().unwrap()
    });
    assert_eq!(waiting.expect(200).text(), "8 /pool.php", "it has waited for the name");
}

#[test]
fn a_silent_name_server_costs_time_only() {
    let applications = applications(9..=9);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let names = NameServer::start("host-record=app.example,127.0.0.9");
    let server = Setup::new(Kind::Fastcgi)
        .line(&format!("resolver = [\"{}\", \"{}\"]", silent.local_addr().unwrap(), names.address))
        .upstream(&format!("address = \"app.example:{}\"", applications.port))
        .site_line("upstream = \"app\"")
        .start();
    status_when(&server, "the address", |status| {
        status["upstreams"][0]["addresses"].as_array().is_some_and(|all| all.len() == 1)
    });
    assert_eq!(seen(&server), set(["9"]));
    assert!(!server.log().contains("cannot be resolved"), "{}", server.log());
    silent.set_nonblocking(true).unwrap();
    let questions = std::iter::from_fn(|| silent.recv(&mut [0; 512]).ok()).count();
    assert!(questions > 1, "a question may be lost, so it is repeated");
}

#[test]
fn a_service_may_have_an_alias() {
    let applications = applications(10..=10);
    let names = NameServer::start(&format!(
        "host-record=ten.example,127.0.0.10\nsrv-host=_app._tcp.example,ten.example,{},10,1\n\
         cname=_alias._tcp.example,_app._tcp.example",
        applications.port
    ));
    assert_eq!(seen(&in_front_of(&names, "srv:_alias._tcp.example")), set(["10"]));
}
