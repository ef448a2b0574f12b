//! Configurations from their files to their meaning, and what is said about wrong ones.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokamak_fpm::config::{Address, CoreLimit, ErrorLog, Manager, Setting};
use tokamak_fpm::host::Host;
use tokamak_fpm::{Config, Level, Loaded, Options, load, test};

/// A machine with one user beside root.
struct Machine {
    root: bool,
}

impl Host for Machine {
    fn is_root(&self) -> bool {
        self.root
    }
    fn user(&self, name: &str) -> Option<(u32, u32)> {
        match name {
            "root" => Some((0, 0)),
            "web" => Some((33, 33)),
            _ => None,
        }
    }
    fn group_of(&self, uid: u32) -> Option<u32> {
        (uid == 33).then_some(33)
    }
    fn group(&self, name: &str) -> Option<u32> {
        self.user(name).map(|(_, gid)| gid)
    }
    fn variable(&self, name: &str) -> Option<String> {
        (name == "HOSTNAME").then(|| "here".into())
    }
}

const USER: Machine = Machine { root: false };
const ROOT: Machine = Machine { root: true };

/// A folder with a configuration in which `DIR` is the folder.
struct Site {
    dir: TempDir,
}

impl Site {
    fn new(text: &str) -> Site {
        let site = Site { dir: tempfile::tempdir().expect("a folder") };
        site.write("fpm.conf", text);
        site
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn write(&self, name: &str, text: &str) {
        let text = text.replace("DIR", self.path().to_str().expect("text"));
        fs::write(self.path().join(name), text).expect("a file");
    }

    fn options(&self) -> Options {
        Options { file: Some(self.path().join("fpm.conf")), ..Options::default() }
    }

    fn load(&self) -> Loaded {
        load(&self.options(), &USER)
    }
}

fn said(loaded: &Loaded) -> Vec<String> {
    loaded
        .messages
        .iter()
        .map(|message| format!("{}: {}", message.level.name(), message.text))
        .collect()
}

fn good(text: &str) -> (Config, Vec<String>) {
    let loaded = Site::new(text).load();
    let said = said(&loaded);
    (loaded.config.unwrap_or_else(|| panic!("{said:#?}")), said)
}

/// What is said about a configuration that is refused, with the folder's name put back.
fn refused(text: &str) -> Vec<String> {
    let site = Site::new(text);
    let loaded = site.load();
    assert!(loaded.config.is_none(), "this was taken:\n{text}");
    let dir = site.path().to_str().expect("text");
    let mut said: Vec<String> = said(&loaded).iter().map(|line| line.replace(dir, "DIR")).collect();
    said.retain(|line| !line.contains("has no effect here"));
    assert_eq!(said.pop().as_deref(), Some("ERROR: FPM initialization failed"));
    let last = said.pop();
    let known = [
        "ERROR: failed to load configuration file 'DIR/fpm.conf'",
        "ERROR: failed to post process the configuration",
    ];
    assert!(last.as_deref().is_some_and(|last| known.contains(&last)), "{last:?}");
    said
}

const LEAST: &str = "[global]\nerror_log = DIR/error.log\n[www]\nlisten = 127.0.0.1:9000\npm = \
    static\npm.max_children = 3\n";

fn with(more: &str) -> String {
    format!("{LEAST}{more}\n")
}

#[test]
fn the_least_has_the_defaults_of_php_fpm() {
    let (config, said) = good(LEAST);
    assert_eq!(said, [""; 0]);
    let global = &config.global;
    assert_eq!(global.pid, None);
    assert!(matches!(&global.error_log, ErrorLog::File(file) if file.ends_with("error.log")));
    assert_eq!(
        (global.log_level, global.log_limit, global.log_buffering),
        (Level::Notice, 1024, true)
    );
    assert_eq!((global.process_priority, global.daemonize), (None, true));
    let pool = &config.pools[0];
    assert_eq!((pool.name.as_str(), pool.max_children, pool.manager), ("www", 3, Manager::Static));
    assert_eq!(pool.listen.address, Address::Tcp { host: "127.0.0.1".into(), port: "9000".into() });
    assert_eq!((pool.listen.backlog, pool.listen.mode), (-1, 0o660));
    assert_eq!(pool.limit_extensions, [".php", ".phar"]);
    assert!(pool.clear_env && pool.decorate_workers_output && !pool.catch_workers_output);
    assert!(
        pool.access.is_none()
            && pool.slow.is_none()
            && pool.ping.is_none()
            && pool.status_path.is_none()
    );
}

#[test]
fn everything_set() {
    let (config, said) = good(
        r#"
; names may be in any case
[GLOBAL]
pid = DIR/fpm.pid
Error_Log = syslog
syslog.ident = site
syslog.facility = LOCAL3
log_level = WARN
log_limit = 4096
log_buffering = no
emergency_restart_threshold = 10
emergency_restart_interval = 1m
process_control_timeout = 2h
process.max = 128
process.priority = -19
daemonize = no
rlimit_files = 1024
rlimit_core = unlimited
systemd_interval = 0
[www]
user = web
group = web
listen = DIR/$pool.sock
listen.backlog = -1
listen.owner = web
listen.group = 33
listen.mode = 0666
listen.acl_users = web,other
listen.acl_groups = web
listen.allowed_clients = 127.0.0.1, ::1,nonsense
process.priority = 10
process.dumpable = yes
pm = dynamic
pm.max_children = 10
pm.start_servers = 3
pm.min_spare_servers = 2
pm.max_spare_servers = 4
pm.max_spawn_rate = 7
pm.max_requests = 500
pm.status_path = /status
pm.status_listen = 127.0.0.1:9001
ping.path = /ping
ping.response = yes
access.log = DIR/$pool.access.log
access.format = "%R %{mili}d"
access.suppress_path[] = /ping
access.suppress_path[] = /health
slowlog = DIR/$pool.slow.log
request_slowlog_timeout = 5s
request_slowlog_trace_depth = 30
request_terminate_timeout = 1m
request_terminate_timeout_track_finished = on
rlimit_files = 512
rlimit_core = 0
chroot =
chdir = DIR
catch_workers_output = yes
decorate_workers_output = no
clear_env = no
security.limit_extensions = .php .php7
env[HOSTNAME] = $HOSTNAME
env[TMP] = /tmp
php_value[a] = 1
php_flag[display_errors] = off
php_admin_value[error_log] = DIR/php.log
php_admin_flag[log_errors] = on
"#,
    );
    // That `user` has no effect without root is a notice, and notices are not wanted.
    let (idle, said): (Vec<String>, Vec<String>) =
        said.into_iter().partition(|line| line.contains("has no effect here"));
    assert_eq!(idle.len(), 6, "{idle:#?}");
    let expected = [
        "ERROR: [pool www] Wrong IP address 'nonsense' in listen.allowed_clients",
        "WARNING: [pool www] ACL set, listen.owner = 'web' is ignored",
        "WARNING: [pool www] ACL set, listen.group = '33' is ignored",
    ];
    assert_eq!(said, expected);
    let global = &config.global;
    assert_eq!(global.error_log, ErrorLog::Syslog);
    assert_eq!(
        (global.log_level, global.log_limit, global.log_buffering),
        (Level::Warning, 4096, false)
    );
    assert_eq!(global.emergency_restart_threshold, 10);
    assert_eq!(global.emergency_restart_interval, Duration::from_secs(60));
    assert_eq!(global.process_control_timeout, Duration::from_secs(7200));
    assert_eq!((global.process_priority, global.daemonize), (Some(-19), false));
    assert_eq!((global.rlimit_files, global.rlimit_core), (Some(1024), Some(CoreLimit::Unlimited)));

    let pool = &config.pools[0];
    assert!(matches!(&pool.listen.address, Address::Unix(path) if path.ends_with("www.sock")));
    assert_eq!((pool.listen.backlog, pool.listen.mode), (-1, 0o666));
    assert_eq!(
        (pool.listen.owner.as_deref(), pool.listen.group.as_deref()),
        (Some("web"), Some("33"))
    );
    assert_eq!(pool.listen.acl_users, ["web", "other"]);
    let clients = pool.listen.allowed_clients.as_ref().expect("a list");
    assert_eq!(
        clients.addresses,
        ["127.0.0.1", "::1"].map(|text| text.parse::<IpAddr>().expect("an address"))
    );
    assert_eq!(clients.wrong, ["nonsense"]);
    let manager = Manager::Dynamic { start: 3, min_spare: 2, max_spare: 4 };
    assert_eq!((pool.manager, pool.max_children, pool.max_requests), (manager, 10, 500));
    assert_eq!(pool.status_path.as_deref(), Some("/status"));
    assert_eq!(
        pool.status_listen,
        Some(Address::Tcp { host: "127.0.0.1".into(), port: "9001".into() })
    );
    let ping = pool.ping.as_ref().expect("a ping page");
    assert_eq!(
        (ping.path.as_str(), ping.response.as_str()),
        ("/ping", "1"),
        "an unquoted yes is 1"
    );
    let access = pool.access.as_ref().expect("an access log");
    assert_eq!((access.format.text(), access.suppress_paths.len()), ("%R %{mili}d", 2));
    let slow = pool.slow.as_ref().expect("a slow log");
    assert_eq!((slow.timeout, slow.trace_depth), (Some(Duration::from_secs(5)), 30));
    assert_eq!(pool.terminate_timeout, Some(Duration::from_secs(60)));
    assert!(pool.terminate_track_finished && pool.catch_workers_output && pool.process_dumpable);
    assert!(!pool.decorate_workers_output && !pool.clear_env);
    assert_eq!(
        (pool.rlimit_files, pool.rlimit_core, pool.process_priority),
        (Some(512), None, Some(10))
    );
    assert_eq!(pool.chroot, None);
    assert_eq!(pool.limit_extensions, [".php", ".php7"]);
    let setting = |name: &str, value: &str| Setting { name: name.into(), value: value.into() };
    assert_eq!(pool.env, [setting("TMP", "/tmp"), setting("HOSTNAME", "here")]);
    assert_eq!(pool.php_values, [setting("display_errors", "0"), setting("a", "1")]);
    assert_eq!(pool.php_admin_values[0], setting("log_errors", "1"));
}

#[test]
fn addresses() {
    let table = [
        ("9000", Address::Port("9000".into())),
        ("127.0.0.1:9000", Address::Tcp { host: "127.0.0.1".into(), port: "9000".into() }),
        ("[::1]:9000", Address::Tcp { host: "::1".into(), port: "9000".into() }),
        ("localhost:http", Address::Tcp { host: "localhost".into(), port: "http".into() }),
        ("/run/a.sock", Address::Unix("/run/a.sock".into())),
        ("run/a.sock", Address::Unix("/usr/run/a.sock".into())),
    ];
    for (text, address) in table {
        let (config, _) = good(&with(&format!("listen = {text}")));
        assert_eq!(config.pools[0].listen.address, address, "{text}");
        assert!(address.to_string().ends_with(text));
    }
}

#[test]
fn prefixes() {
    let site = Site::new(
        "[global]\nerror_log = a.log\npid = a.pid\ninclude = etc/*.conf\n[www]\nlisten = \
            a.sock\npm = ondemand\npm.max_children = 1\n\
         chroot = $prefix/inner\nslowlog = s.log\nphp_admin_value[error_log] = x\n[own]\nprefix = \
         DIR/etc\nlisten = b.sock\n\
         pm = ondemand\npm.max_children = 1\nphp_admin_value[error_log] = \
         x\nphp_value[sendmail_path] = y\nphp_admin_value[z] = z",
    );
    for folder in ["etc", "inner"] {
        fs::create_dir(site.path().join(folder)).expect("a folder");
    }
    site.write("etc/b.conf", "[included]\nlisten = 9002\npm = static\npm.max_children = 1");
    let prefix = site.path().to_str().expect("text").to_string();
    let loaded = load(&Options { prefix: Some(prefix), ..site.options() }, &USER);
    let config = loaded.config.clone().unwrap_or_else(|| panic!("{:#?}", said(&loaded)));
    let below = |name: &str| site.path().join(name);
    assert_eq!(config.global.pid, Some(below("a.pid")));
    assert_eq!(config.global.error_log, ErrorLog::File(below("a.log")));
    let names: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["included", "www", "own"]);
    let [_, www, own] = &config.pools[..] else { panic!("three pools") };
    assert_eq!(www.listen.address, Address::Unix(below("a.sock")));
    assert_eq!(www.chroot, Some(below("inner")));
    assert_eq!(www.slow.as_ref().map(|slow| slow.file.clone()), Some(below("s.log")));
    assert_eq!(www.php_admin_values[0].value, "x", "paths in a chroot are left alone");
    assert_eq!(own.listen.address, Address::Unix(below("etc/b.sock")));
    assert_eq!(own.php_admin_values[1].value, below("etc/x").to_str().expect("text"));
    assert_eq!(own.php_values[0].value, below("etc/y").to_str().expect("text"));
    assert_eq!(own.php_admin_values[0].value, "z");
    assert_eq!(
        said(&loaded),
        ["NOTICE: [pool www] 'chroot' directive is ignored when FPM is not running as root"]
    );
}

#[test]
fn the_command_line_above_the_file() {
    let site = Site::new(LEAST);
    let pid = site.path().join("x.pid");
    let options = Options {
        pid: Some(pid.to_str().expect("text").into()),
        daemonize: Some(false),
        ..site.options()
    };
    let config = load(&options, &USER).config.expect("a configuration");
    assert_eq!((config.global.pid, config.global.daemonize), (Some(pid), false));
    assert_eq!(Options::default().path(), PathBuf::from("/etc/php-fpm.conf"));
    let below = Options { prefix: Some("/opt/x".into()), ..Options::default() };
    assert_eq!(below.path(), PathBuf::from("/opt/x/etc/php-fpm.conf"));
}

#[test]
fn includes_come_in_alphabetical_order_and_may_nest() {
    let site = Site::new("[global]\nerror_log = DIR/e.log\ninclude = DIR/pool.d/*.conf");
    fs::create_dir(site.path().join("pool.d")).expect("a folder");
    for name in ["b", "a", "c"] {
        let text =
            format!("[{name}]\nlisten = DIR/{name}.sock\npm = ondemand\npm.max_children = 1");
        site.write(&format!("pool.d/{name}.conf"), &text);
    }
    site.write("pool.d/.hidden.conf", "nonsense");
    let config = site.load().config.expect("a configuration");
    assert_eq!(config.pools.iter().map(|pool| pool.name.as_str()).collect::<String>(), "abc");

    site.write("pool.d/b.conf", "include = DIR/pool.d/b.conf");
    let said = said(&site.load());
    assert_eq!(said[0], "ERROR: failed to include more than 5 files recursively");
    assert!(said[1].starts_with("ERROR: Unable to include "), "{said:?}");
    assert!(said[1].ends_with("pool.d/b.conf at line 1"), "{said:?}");
}

#[test]
fn an_include_of_nothing_is_a_warning_with_its_place() {
    let site = Site::new(&format!("include = DIR/none/*.conf\n{LEAST}"));
    let dir = site.path().to_str().expect("text").to_string();
    let expected = format!(
        "WARNING: Nothing matches the include pattern '{dir}/none/*.conf' from {dir}/fpm.conf at \
            line 1."
    );
    assert_eq!(said(&site.load()), [expected]);
}

#[test]
fn a_directive_without_effect_is_named_with_its_line() {
    let site = Site::new(&LEAST.replace("[www]", "events.mechanism = poll\n[www]"));
    let said = said(&site.load());
    assert_eq!(said.len(), 1);
    assert!(
        said[0].ends_with("fpm.conf:3] 'events.mechanism' has no effect here: it is always epoll"),
        "{said:?}"
    );
}

#[test]
fn lines_that_cannot_be_read() {
    let line = LEAST.lines().count() + 1;
    let table = [
        ("nonsense = 1", "unknown entry 'nonsense'"),
        ("nonsense[a] = 1", "unknown directive 'nonsense'"),
        ("pm", "value is NULL for a ZEND_INI_PARSER_ENTRY"),
        (
            "pm = many",
            "unable to parse value for entry 'pm': invalid process manager (static, dynamic or \
                ondemand)",
        ),
        (
            "PM.max_children = many",
            "unable to parse value for entry 'pm.max_children': is not a valid number (greater or \
                equal than zero)",
        ),
        ("clear_env = maybe", "unable to parse value for entry 'clear_env': invalid boolean value"),
        (
            "request_terminate_timeout = 5x",
            "unable to parse value for entry 'request_terminate_timeout': unknown suffix used in \
                time value",
        ),
        (
            "request_terminate_timeout =",
            "unable to parse value for entry 'request_terminate_timeout': invalid time value",
        ),
        (
            "rlimit_core = -1",
            "unable to parse value for entry 'rlimit_core': must be greater than zero or 'unlimited'",
        ),
        ("env[] = x", "You must provide a key for field 'env'"),
        ("env[A] =", "empty value"),
        ("php_flag[a] = 7", "error while parsing 'php_flag[a]' : invalid boolean value"),
        (
            "access.suppress_path[x] = /y",
            "Keys provided to field 'access.suppress_path' are ignored",
        ),
        (
            "access.suppress_path[] = y",
            "Values provided to field 'access.suppress_path' must begin with '/'",
        ),
        ("pm = = x", "syntax error, unexpected '='"),
    ];
    for (text, reason) in table {
        assert_eq!(
            refused(&with(text)),
            [format!("ERROR: [DIR/fpm.conf:{line}] {reason}")],
            "{text}"
        );
    }
    let global = [
        (
            "pid = /run/$pool.pid",
            "unable to parse value for entry 'pid': Can't use '$pool' when the pool is not defined",
        ),
        (
            "log_level = loud",
            "unable to parse value for entry 'log_level': invalid value for 'log_level'",
        ),
        (
            "syslog.facility = none",
            "unable to parse value for entry 'syslog.facility': invalid value",
        ),
        ("env[A] = b", "Array are not allowed in the global section"),
        ("listen = 9000", "unknown entry 'listen'"),
    ];
    for (text, reason) in global {
        let text = LEAST.replace("[www]", &format!("{text}\n[www]"));
        assert_eq!(refused(&text), [format!("ERROR: [DIR/fpm.conf:3] {reason}")], "{text}");
    }
}

#[test]
fn a_line_that_is_no_text_is_refused() {
    let site = Site::new(LEAST);
    let mut bytes = fs::read(site.path().join("fpm.conf")).expect("a file");
    bytes.extend(b"env[A] = \xff\n");
    fs::write(site.path().join("fpm.conf"), bytes).expect("a file");
    assert!(said(&site.load())[0].ends_with("fpm.conf:7] this is not valid UTF-8"));
}

#[test]
fn what_makes_no_sense_together() {
    let dynamic = "pm = dynamic\npm.min_spare_servers = 1\npm.max_spare_servers = 3\n";
    let table = [
        (
            "pm.max_children = 0".into(),
            "ALERT: [pool www] pm.max_children must be a positive value",
        ),
        ("listen =".into(), "ALERT: [pool www] no listen address have been defined!"),
        (
            "prefix = DIR/none".into(),
            "ERROR: [pool www] the prefix 'DIR/none' does not exist or is not a directory",
        ),
        (
            "process.priority = 21".into(),
            "ERROR: [pool www] process.priority must be included into [-19,20]",
        ),
        (
            format!("{dynamic}pm.min_spare_servers = 0"),
            "ALERT: [pool www] pm.min_spare_servers(0) must be a positive value",
        ),
        (
            format!("{dynamic}pm.max_spare_servers = 0"),
            "ALERT: [pool www] pm.max_spare_servers(0) must be a positive value",
        ),
        (
            format!("{dynamic}pm.max_spare_servers = 4"),
            "ALERT: [pool www] pm.min_spare_servers(1) and pm.max_spare_servers(4) cannot be \
                greater than pm.max_children(3)",
        ),
        (
            format!("{dynamic}pm.min_spare_servers = 3\npm.max_spare_servers = 2"),
            "ALERT: [pool www] pm.max_spare_servers(2) must not be less than pm.min_spare_servers(3)",
        ),
        (
            format!("{dynamic}pm.min_spare_servers = 2\npm.start_servers = 1"),
            "ALERT: [pool www] pm.start_servers(1) must not be less than pm.min_spare_servers(2) \
                and not greater than pm.max_spare_servers(3)",
        ),
        (
            format!("{dynamic}pm.start_servers = 2\npm.max_spawn_rate = 0"),
            "ALERT: [pool www] pm.max_spawn_rate must be a positive value",
        ),
        (
            "pm = ondemand\npm.process_idle_timeout = 0".into(),
            "ALERT: [pool www] pm.process_idle_timeout(0s) must be greater than 0s",
        ),
        (
            "pm.status_path = status".into(),
            "ERROR: [pool www] the status path 'status' must start with a '/'",
        ),
        ("pm.status_path = /".into(), "ERROR: [pool www] the status path '/' is not long enough"),
        (
            "pm.status_path = /a?b".into(),
            "ERROR: [pool www] the status path '/a?b' must contain only the following characters \
                '[alphanum]/_-.~'",
        ),
        ("ping.path = ping".into(), "ERROR: [pool www] the ping path 'ping' must start with a '/'"),
        ("ping.path = /".into(), "ERROR: [pool www] the ping path '/' is not long enough"),
        (
            "ping.path = /ping\nping.response =".into(),
            "ERROR: [pool www] the ping response page '' is not long enough",
        ),
        (
            "request_slowlog_timeout = 1".into(),
            "ERROR: [pool www] 'slowlog' must be specified for use with 'request_slowlog_timeout'",
        ),
        (
            "slowlog = DIR/s\nrequest_slowlog_timeout = 9\nrequest_terminate_timeout = 8".into(),
            "ERROR: [pool www] 'request_slowlog_timeout' (9) can't be greater than \
                'request_terminate_timeout' (8)",
        ),
        (
            "request_slowlog_trace_depth = 1".into(),
            "ERROR: [pool www] 'slowlog' must be specified for use with \
                'request_slowlog_trace_depth'",
        ),
        (
            "slowlog = DIR/s\nrequest_slowlog_trace_depth = -1".into(),
            "ERROR: [pool www] 'request_slowlog_trace_depth' (-1) must be a positive value",
        ),
        (
            "slowlog = DIR/no/s\nrequest_slowlog_timeout = 1".into(),
            "ERROR: Unable to create or open slowlog(DIR/no/s): No such file or directory (2)",
        ),
        (
            "access.log = DIR/no/a".into(),
            "ERROR: failed to open access log (DIR/no/a): No such file or directory (2)",
        ),
        (
            "chroot = DIR/none".into(),
            "ERROR: [pool www] the chroot path 'DIR/none' does not exist or is not a directory",
        ),
        (
            "chdir = DIR/none".into(),
            "ERROR: [pool www] the chdir path 'DIR/none' does not exist or is not a directory",
        ),
        (
            "chroot = DIR\nchdir = /none".into(),
            "ERROR: [pool www] the chdir path '/none' within the chroot path 'DIR' ('DIR//none') \
                does not exist or is not a directory",
        ),
        (
            "[two]\nlisten = 127.0.0.1:9000\npm = static\npm.max_children = 1".into(),
            "ERROR: [pool two] unable to set listen address as it's already used in another pool \
                'www'",
        ),
        (
            "pm.status_listen = 127.0.0.1:9000".into(),
            "ERROR: [pool www_status] unable to set listen address as it's already used in \
                another pool 'www'",
        ),
    ];
    for (text, reason) in table {
        assert_eq!(refused(&with(&text)), [reason], "{text}");
    }
}

#[test]
fn what_makes_no_sense_for_all() {
    let table = [
        ("log_limit = 511", "ERROR: log_limit must be greater than 512"),
        ("process.max = -1", "ERROR: process_max can't be negative"),
        ("process.priority = -20", "ERROR: process.priority must be included into [-19,20]"),
        (
            "error_log = DIR/no/e",
            "ERROR: failed to open error_log (DIR/no/e): No such file or directory (2)",
        ),
    ];
    for (text, reason) in table {
        let text = LEAST.replace("[www]", &format!("{text}\n[www]"));
        assert_eq!(refused(&text), [reason], "{text}");
    }
    assert_eq!(
        refused("[global]\nerror_log = DIR/e"),
        ["ERROR: No pool defined. at least one pool section must be specified in config file"]
    );
    let pm = LEAST.replace("pm = static\n", "");
    assert_eq!(
        refused(&pm),
        ["ALERT: [pool www] the process manager is missing (static, dynamic or ondemand)"]
    );
    let format = with("access.log = DIR/a.log\naccess.format = \"%Z\"");
    assert_eq!(
        refused(&format),
        [
            "WARNING: Invalid token in the access.format (%Z)",
            "ERROR: [pool www] wrong format for access.format '%Z'"
        ]
    );
    let missing =
        load(&Options { file: Some("/no/such/file".into()), ..Options::default() }, &USER);
    assert_eq!(
        said(&missing)[0],
        "ERROR: failed to open configuration file '/no/such/file': No such file or directory (2)"
    );
    let prefix = load(&Options { prefix: Some("/no/such".into()), ..Options::default() }, &USER);
    assert_eq!(
        said(&prefix)[0],
        "ERROR: the global prefix '/no/such' does not exist or is not a directory"
    );
}

#[test]
fn numbers_that_are_mended() {
    let (config, said) =
        good(&with("pm = dynamic\npm.min_spare_servers = 1\npm.max_spare_servers = 3"));
    assert_eq!(said, ["NOTICE: [pool www] pm.start_servers is not set. It's been set to 2."]);
    assert!(matches!(config.pools[0].manager, Manager::Dynamic { start: 2, .. }));
    let (config, said) = good(&with("pm = ondemand\nlisten.backlog = -5"));
    assert_eq!(
        said,
        ["WARNING: [pool www] listen.backlog(-5) was too low for the ondemand process manager. \
                I updated it for you to -1."]
    );
    assert_eq!(config.pools[0].listen.backlog, -1);
    let (config, _) = good(&with("pm.status_listen = 9001"));
    assert_eq!(config.pools[0].status_path.as_deref(), Some("/"));
}

#[test]
fn who_may_be_root() {
    let load_as = |more: &str, host: &Machine, run_as_root: bool| {
        let site = Site::new(&with(more));
        let loaded = load(&Options { run_as_root, ..site.options() }, host);
        (loaded.config.is_some(), said(&loaded).first().cloned().unwrap_or_default())
    };
    assert_eq!(
        load_as("", &ROOT, false),
        (false, "ALERT: [pool www] user has not been defined".into())
    );
    assert_eq!(load_as("user = web", &ROOT, false), (true, String::new()));
    assert_eq!(load_as("user = 33", &ROOT, false), (true, String::new()));
    assert_eq!(load_as("user = 1000\ngroup = 1000", &ROOT, false), (true, String::new()));
    let root = "ERROR: [pool www] please specify user and group other than root";
    assert_eq!(load_as("user = root", &ROOT, false), (false, root.into()));
    assert_eq!(
        load_as("user = 1000", &ROOT, false),
        (false, root.into()),
        "a number without a group"
    );
    assert_eq!(load_as("user = 1000", &ROOT, true), (true, String::new()));
    assert_eq!(load_as("user = web\ngroup = root", &ROOT, false), (false, root.into()));
    assert_eq!(load_as("", &ROOT, true), (true, String::new()));
    let nobody = "ERROR: [pool www] cannot get uid for user 'nobody-here'";
    assert_eq!(load_as("user = nobody-here", &ROOT, false), (false, nobody.into()));
    let ignored = "NOTICE: [pool www] 'user' directive is ignored when FPM is not running as root";
    assert_eq!(load_as("user = nobody-here", &USER, false), (true, ignored.into()));
}

#[test]
fn a_test_of_the_configuration_looks_up_all_names() {
    for (text, reason) in [
        ("user = x", "ERROR: [pool www] cannot get uid for user 'x'"),
        ("group = x", "ERROR: [pool www] cannot get gid for group 'x'"),
        ("listen.owner = x", "ERROR: [pool www] cannot get uid for user 'x': Success (0)"),
        ("listen.group = x", "ERROR: [pool www] cannot get gid for group 'x': Success (0)"),
    ] {
        let loaded = test(&Site::new(&with(text)).options(), false, &USER);
        assert_eq!(said(&loaded), [reason, "ERROR: FPM initialization failed"]);
    }
    let site = Site::new(&with("user = web\ngroup = 12345"));
    let loaded = test(&site.options(), false, &USER);
    let expected = format!(
        "NOTICE: configuration file {} test is successful\n",
        site.path().join("fpm.conf").display()
    );
    assert_eq!(said(&loaded), [expected]);
}

#[test]
fn the_dump_is_that_of_php_fpm() {
    let site = Site::new(&with(
        "access.log = DIR/a.log\naccess.suppress_path[] = /p\nenv[A] = $HOSTNAME\nenv[B] = \
            b\nphp_flag[x] = off\npm.process_idle_timeout = 1m",
    ));
    let said = said(&test(&site.options(), true, &USER));
    assert_eq!(said[0], "NOTICE: [global]");
    for line in [
        "\tpid = undefined",
        "\tsyslog.ident = php-fpm",
        "\tsyslog.facility = 24",
        "\tlog_buffering = yes",
        "\tlog_level = NOTICE",
        "\temergency_restart_interval = 0s",
        "\tprocess.priority = undefined",
        "\tevents.mechanism = epoll",
        "\tsystemd_interval = 10s",
        "[www]",
        "\tlisten = 127.0.0.1:9000",
        "\tlisten.mode = undefined",
        "\tpm = static",
        "\tpm.process_idle_timeout = 60",
        "\taccess.format = %R - %u %t \"%m %r\" %s",
        "\taccess.suppress_path[] = /p",
        "\trequest_terminate_timeout = 0s",
        "\tsecurity.limit_extensions = .php .phar",
        "\tenv[B] = b",
        "\tenv[A] = $HOSTNAME",
        "\tphp_value[x] = 0",
        " ",
    ] {
        assert!(said.contains(&format!("NOTICE: {line}")), "{line:?} is missing in {said:#?}");
    }
    assert!(!said.iter().any(|line| line.contains("apparmor_hat")));
}
