//! Services that the set-up of the tests does not install. `scripts/works-with` unpacks their
//! packages into a folder; a service that is installed is taken from where it is.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::mariadb::PASSWORD;
use crate::harness::{Process, eventually, free_address, is_root};

/// The variable that names the folder.
pub const FOLDER: &str = "WORKS_WITH_PACKAGES_IN";

/// Who sshd runs as where the tests are root: as root it needs a user of its own, which its package
/// makes when it is installed.
const SSH_USER: &str = "daemon";

/// Longest wait for a service to listen. RabbitMQ takes four seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a service on these ports, and does not wait.
pub type Start = fn(&[u16]) -> Unpacked;

/// Services by the names that the rows of `tests/works-with` have for them. A program with two
/// names has a port for each.
pub const ALL: [(&[&str], Start); 7] = [
    (&["gearman"], gearman),
    (&["imap"], imap),
    (&["ldap"], ldap),
    (&["memcached"], memcached),
    (&["amqp", "stomp"], rabbitmq),
    (&["snmp"], snmp),
    (&["ssh"], ssh),
];

/// A running service. It asks for [`PASSWORD`] if it knows passwords.
pub struct Unpacked {
    /// Before their directory, because fields are dropped in this order.
    processes: Vec<Process>,
    /// Its settings, its data, and what its clients need.
    pub dir: TempDir,
    /// Its names, and the ports on 127.0.0.1.
    pub ports: Vec<(&'static str, u16)>,
}

impl Unpacked {
    /// Starts a service of [`ALL`], and waits until it listens.
    pub fn start(names: &[&'static str], make: Start) -> Unpacked {
        let ports: Vec<u16> = names.iter().map(|_| free_address().port()).collect();
        let mut service = make(&ports);
        for (name, port) in names.iter().zip(ports) {
            let listens = || TcpStream::connect(("127.0.0.1", port)).ok();
            let log = || fs::read_to_string(service.at("log")).unwrap_or_default();
            assert!(eventually(PATIENCE, listens).is_some(), "{name} does not start:\n{}", log());
            service.ports.push((name, port));
        }
        service
    }

    /// A folder that all users may look into: sshd and workers are not root.
    fn new() -> Unpacked {
        let dir = tempfile::Builder::new().prefix("tokamak-service-").tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Unpacked { processes: Vec::new(), dir, ports: Vec::new() }
    }

    /// A place in its directory, as text for settings.
    fn at(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    fn run(&mut self, program: &str, arguments: &[&str], environment: &[(&str, &str)]) {
        let arguments: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        let environment: Vec<_> =
            environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let log = self.dir.path().join("log");
        self.processes.push(Process::start(Path::new(program), &arguments, &environment, &log));
    }
}

/// A file or folder of a package: unpacked, or else as it is installed.
fn packaged(path: &str) -> String {
    let unpacked = std::env::var_os(FOLDER).map(|folder| Path::new(&folder).join(path));
    let found = unpacked.filter(|place| place.exists());
    found.unwrap_or_else(|| Path::new("/").join(path)).display().to_string()
}

/// The one entry of a folder whose name begins so: what follows is a version.
fn versioned(folder: &str, begin: &str) -> String {
    let begin = format!("{folder}/{begin}");
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut places = entries.map(|entry| entry.unwrap().path().display().to_string());
    places.find(|place| place.starts_with(&begin)).unwrap_or_else(|| panic!("no {begin}"))
}

/// Runs a program to its end; what it printed.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?} failed: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn memcached(ports: &[u16]) -> Unpacked {
    let mut service = Unpacked::new();
    let port = ports[0].to_string();
    service.run(
        &packaged("usr/bin/memcached"),
        &["-p", &port, "-l", "127.0.0.1", "-u", "nobody"],
        &[],
    );
    service
}

fn gearman(ports: &[u16]) -> Unpacked {
    let mut service = Unpacked::new();
    let port = ports[0].to_string();
    let words = ["-p", &port, "-L", "127.0.0.1", "--log-file", "stderr"];
    service.run(&packaged("usr/sbin/gearmand"), &words, &[]);
    service
}

/// A directory with the person `cn=one,dc=works`, and `cn=reactor,dc=works`, who may do all.
fn ldap(ports: &[u16]) -> Unpacked {
    let mut service = Unpacked::new();
    fs::create_dir(service.at("data")).unwrap();
    service.write(
        "settings",
        &format!(
            "include {}/core.schema\nmodulepath {}\nmoduleload back_mdb\npidfile {}\n\
             database mdb\nsuffix dc=works\ndirectory {}\ndbnosync\n\
             rootdn cn=reactor,dc=works\nrootpw \"{PASSWORD}\"\n",
            packaged("etc/ldap/schema"),
            packaged("usr/lib/ldap"),
            service.at("pid"),
            service.at("data"),
        ),
    );
    service.write(
        "entries",
        "dn: dc=works\nobjectClass: organization\nobjectClass: dcObject\ndc: works\no: works\n\n\
         dn: cn=one,dc=works\nobjectClass: person\ncn: one\nsn: first\nuserPassword: its own\n",
    );
    let settings = service.at("settings");
    said(&packaged("usr/sbin/slapadd"), &["-f", &settings, "-l", &service.at("entries")]);
    let address = format!("ldap://127.0.0.1:{}", ports[0]);
    // With a level of messages it stays in the foreground.
    let words = ["-d", "0", "-h", &address, "-f", &settings];
    service.run(&packaged("usr/sbin/slapd"), &words, &[]);
    service
}

/// Lets the user whom the file `name` names in with `key`, to read files over SFTP, such as `text`.
fn ssh(ports: &[u16]) -> Unpacked {
    let mut service = Unpacked::new();
    for key in ["host", "key"] {
        let words = ["-q", "-t", "ed25519", "-N", "", "-f", &service.at(key)];
        said(&packaged("usr/bin/ssh-keygen"), &words);
    }
    fs::set_permissions(service.at("key"), Permissions::from_mode(0o644)).unwrap();
    service.write("text", "text");
    service.write(
        "settings",
        &format!(
            "ListenAddress 127.0.0.1:{}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             UsePAM no\nPidFile none\nSubsystem sftp internal-sftp\nMaxStartups 100\n",
            ports[0],
            service.at("host"),
            service.at("key.pub"),
        ),
    );
    let (program, settings) = (packaged("usr/sbin/sshd"), service.at("settings"));
    let words = [program.as_str(), "-D", "-e", "-f", &settings];
    if is_root() {
        let (uid, gid) = tokamak_sys::process::find_user(SSH_USER).expect("a user of every Debian");
        chown(service.at("host"), Some(uid), Some(gid)).unwrap();
        service.write("name", SSH_USER);
        // The change of the user takes back what the kernel was asked for the test's end.
        let change = ["--reuid", SSH_USER, "--regid", SSH_USER, "--clear-groups", "--pdeathsig"];
        service.run("setpriv", &[&change[..], &["TERM"], &words].concat(), &[]);
    } else {
        service.write("name", &said("id", &["-un"]));
        service.run(words[0], &words[1..], &[]);
    }
    service
}

/// Says over UDP, to the community `works`, that each value is `here`. It takes a little while over
/// one that it was not asked for before, as devices do: so requests that come together wait
/// together. It listens on TCP too, so that it is seen to listen.
fn snmp(ports: &[u16]) -> Unpacked {
    let mut service = Unpacked::new();
    service.write("value", "sleep 0.05\nprintf '%s\\nstring\\nhere\\n' \"$2\"\n");
    let value = format!("pass .1.3.6.1.4.1.8072.9999.1 /bin/sh {}", service.at("value"));
    service.write("settings", &format!("rocommunity works 127.0.0.1\n{value}\n"));
    let address = format!("udp:127.0.0.1:{0},tcp:127.0.0.1:{0}", ports[0]);
    let words = ["-f", "-Le", "-C", "-c", &service.at("settings"), &address];
    let state = service.at("state");
    // Names of values need files that Debian does not have, and that it would miss at length.
    let environment = [("MIBS", ""), ("SNMP_PERSISTENT_DIR", &state)];
    service.run(&packaged("usr/sbin/snmpd"), &words, &environment);
    service
}

/// A mailbox of `reactor@works` with one mail, whose subject is `works`. Clients log in by `LOGIN`:
/// this server ends its answer to `AUTHENTICATE` without the byte that PHP's extension waits for.
fn imap(ports: &[u16]) -> Unpacked {
    let mut service = Unpacked::new();
    for folder in ["passwords", "home"] {
        fs::create_dir(service.at(folder)).unwrap();
    }
    let owner = fs::metadata(service.dir.path()).unwrap();
    let user = format!(
        "reactor:{}:{}:{}::{}:\n",
        said("openssl", &["passwd", "-6", PASSWORD]),
        owner.uid(),
        owner.gid(),
        service.at("home"),
    );
    service.write("passwords/works", &user);
    service
        .write("home/INBOX", "From a@works Mon Jan  1 00:00:00 2024\nSubject: works\n\nText.\n\n");
    service.write(
        "settings",
        &format!(
            "auth {{\n authorization virtdomain;\n authentication generic;\n}}\n\
             gsasl {{\n enable no;\n}}\n\
             virtdomain {{\n passwd-dir {};\n}}\nlocking {{\n type null;\n}}\n\
             tcp-wrappers {{\n enable no;\n}}\nlogging {{\n syslog no;\n}}\n\
             mode daemon;\nforeground yes;\nmax-children 100;\npidfile {};\n\
             server 127.0.0.1:{} {{\n}}\n",
            service.at("passwords"),
            service.at("pid"),
            ports[0],
        ),
    );
    let settings = format!("--config-file={}", service.at("settings"));
    service.run(&packaged("usr/sbin/imap4d"), &[&settings], &[]);
    service
}

/// RabbitMQ for AMQP and STOMP. Its own scripts would look for Erlang where it is installed.
fn rabbitmq(ports: &[u16]) -> Unpacked {
    let mut service = Unpacked::new();
    service.write(
        "rabbitmq.conf",
        &format!(
            "listeners.tcp.1 = 127.0.0.1:{}\nstomp.listeners.tcp.1 = 127.0.0.1:{}\n\
             default_user = reactor\ndefault_pass = {PASSWORD}\n",
            ports[0], ports[1],
        ),
    );
    service.write("plugins", "[rabbitmq_stomp].");
    let erlang = packaged("usr/lib/erlang");
    let programs = format!("{}/bin", versioned(&erlang, "erts-"));
    let home = versioned(&packaged("usr/lib/rabbitmq/lib"), "rabbitmq_server-");
    let plugins = format!("{home}/plugins");
    // The node must be known to an epmd: to one of its own, since it is in the way of no other.
    let names = free_address().port().to_string();
    service.run(&format!("{programs}/epmd"), &["-port", &names, "-address", "127.0.0.1"], &[]);
    let environment: &[(&str, &str)] = &[
        ("HOME", &service.at("")),
        ("ROOTDIR", &erlang),
        ("BINDIR", &programs),
        ("EMU", "beam"),
        ("PROGNAME", "erl"),
        ("ERL_LIBS", &plugins),
        ("ERL_EPMD_PORT", &names),
        ("ERL_EPMD_ADDRESS", "127.0.0.1"),
        ("RABBITMQ_HOME", &home),
        ("SYS_PREFIX", ""),
        ("RABBITMQ_NODENAME", "rabbit@localhost"),
        ("RABBITMQ_CONF_ENV_FILE", &service.at("none")),
        ("RABBITMQ_CONFIG_FILE", &service.at("rabbitmq")),
        ("RABBITMQ_GENERATED_CONFIG_DIR", &service.at("generated")),
        ("RABBITMQ_MNESIA_BASE", &service.at("data")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", &service.at("plugins")),
        ("RABBITMQ_PLUGINS_DIR", &plugins),
        ("RABBITMQ_LOG_BASE", &service.at("")),
        ("RABBITMQ_LOGS", "-"),
    ];
    let words = "-noinput -boot start_sasl -s rabbit boot -start_epmd false \
                 -sname rabbit@localhost -kernel inet_dist_use_interface {127,0,0,1} \
                 -syslog logger [] -syslog syslog_error_logger false +sbwt none";
    let words: Vec<_> = words.split_whitespace().collect();
    service.run(&format!("{programs}/erlexec"), &words, environment);
    service
}
