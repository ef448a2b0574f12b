//! From a php-fpm configuration to a server: each pool is a site that web servers reach by FastCGI.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, ToSocketAddrs};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use tokamak_config::{Fpm, FpmAddress, FpmSocket, Pool, PoolSize, Secret, Server, Site};
use tokamak_fpm::arguments::Arguments;
use tokamak_fpm::config::{Address, ErrorLog, Manager, Setting};
use tokamak_fpm::host::Machine;
use tokamak_fpm::log::Style;
use tokamak_fpm::{Config, Level, Loaded, Message};

use super::fastcgi::{self, AGES};

/// Exit status of php-fpm when it cannot be what its configuration says.
const CONFIG: u8 = 78;
/// Most workers of a pool.
const WORKERS: usize = 256;
/// Fewest requests that may wait for a worker, however short the pool's backlog: one connection
/// brings several.
const QUEUE: usize = 511;
/// Serves in php-fpm's place until it is told to stop.
pub fn serve(arguments: Arguments, config: &Config) -> ExitCode {
    let style = Style { lowest: config.global.log_level, limit: config.global.log_limit };
    let say = move |message: &Message| {
        if let Some(line) = style.line(SystemTime::now(), std::process::id(), message) {
            eprint!("{line}");
        }
    };
    let failed = |message: &Message| {
        say(message);
        say(&Message::new(Level::Error, "FPM initialization failed"));
        ExitCode::from(CONFIG)
    };
    if config.global.daemonize {
        let what = "it runs in the foreground only: say --nodaemonize, or daemonize = no";
        return failed(&Message::new(Level::Error, what));
    }
    warnings(config).iter().for_each(&say);
    let arguments = Rc::new(arguments);
    let server = match server(&arguments, config) {
        Ok(server) => server,
        Err(message) => return failed(&message),
    };
    let reread = Box::new(move || {
        let config = print_messages(tokamak_fpm::load(&arguments.options, &Machine));
        let config =
            config.ok_or_else(|| "the configuration is wrong, as said above".to_owned())?;
        self::server(&arguments, &config).map_err(|message| message.text)
    });
    match super::supervise(server, reread) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => failed(&Message::new(Level::Error, reason)),
    }
}

/// Prints the messages about a configuration to standard error, and gives the configuration if it
/// can be used.
pub fn print_messages(loaded: Loaded) -> Option<Config> {
    let global = loaded.config.as_ref().map(|config| &config.global);
    let style = global.map_or_else(Style::default, |global| Style {
        lowest: global.log_level,
        limit: global.log_limit,
    });
    for message in &loaded.messages {
        if let Some(line) = style.line(SystemTime::now(), std::process::id(), message) {
            // A server that runs must not wait for who reads its log.
            tokamak_supervisor::log::write_raw(line.as_bytes());
        }
    }
    loaded.config
}

/// The server that this configuration means.
///
/// # Errors
/// Fails if an address cannot be resolved.
fn server(arguments: &Arguments, config: &Config) -> Result<Server, Message> {
    let mut own_sites = pools_file(arguments)?;
    let mut sockets = Vec::new();
    let mut sites = Vec::new();
    for (site_index, pool) in config.pools.iter().enumerate() {
        let address = resolve(&pool.listen.address)?;
        sockets.push(FpmSocket { address, site_index, is_for_status: false });
        if let Some(address) = &pool.status_listen {
            sockets.push(FpmSocket { address: resolve(address)?, site_index, is_for_status: true });
        }
        let own = own_sites
            .iter()
            .position(|(name, _)| *name == pool.name)
            .map(|at| own_sites.swap_remove(at).1);
        sites.push(site(pool, own));
    }
    if let (Some((name, _)), Some(file)) = (own_sites.first(), &arguments.pools) {
        let text = format!("{}: there is no pool '{name}' in the configuration", file.display());
        return Err(Message::new(Level::Error, text));
    }
    let global = &config.global;
    let control = global.process_control_timeout;
    let mut server = fastcgi::server(sites);
    server.pid_file = global.pid.clone();
    server.timeouts.drain = if control.is_zero() { AGES } else { control };
    server.log.error = match &global.error_log {
        // Standard error is a terminal.
        _ if arguments.force_stderr || std::io::stderr().is_terminal() => None,
        ErrorLog::File(path) => Some(path.clone()),
        ErrorLog::Syslog => None,
    };
    server.fpm = Some(Fpm { global: global.clone(), php: arguments.php.clone(), sockets });
    Ok(server)
}

/// Settings that do not work here, beside the directives that have no effect.
fn warnings(config: &Config) -> Vec<Message> {
    let large = config.pools.iter().filter(|pool| pool.max_children as usize > WORKERS);
    let text = |name: &str| {
        format!("[pool {name}] pm.max_children is more than a pool can have here: {WORKERS}")
    };
    large.map(|pool| Message::new(Level::Warning, text(&pool.name))).collect()
}

/// What the file of `--pools` says, by the names of the pools.
fn pools_file(arguments: &Arguments) -> Result<Vec<(String, Site)>, Message> {
    let Some(file) = &arguments.pools else { return Ok(Vec::new()) };
    let wrong = |what: String| Message::new(Level::Error, what);
    let directory = std::env::current_dir().map_err(|error| wrong(error.to_string()))?;
    // A message is a line; the first error is enough to go on with.
    tokamak_config::pools(file, &directory).map_err(|errors| {
        let first = errors.iter().next().map(ToString::to_string);
        wrong(first.unwrap_or_default())
    })
}

/// The site of a pool, with its other settings.
fn site(pool: &tokamak_fpm::Pool, own: Option<Site>) -> Site {
    let table = |settings: &[Setting]| -> BTreeMap<String, String> {
        settings.iter().map(|setting| (setting.name.clone(), setting.value.clone())).collect()
    };
    let mut site = fastcgi::site(&pool.name, "/".into());
    if let Some(own) = own {
        site = Site {
            root: own.root,
            mode: own.mode,
            worker: own.worker,
            boot: own.boot,
            warm: own.warm,
            keep: own.keep,
            ..site
        };
    }
    site.pool = Pool {
        size: size(pool),
        queue: usize::try_from(pool.listen.backlog).unwrap_or(0).max(QUEUE),
        queue_timeout: AGES,
        max_requests: pool.max_requests.into(),
        max_memory: 0,
        request_timeout: pool.terminate_timeout.unwrap_or_default(),
        slow: pool.slow.as_ref().and_then(|slow| slow.timeout).unwrap_or_default(),
    };
    site.php_value = table(&pool.php_values);
    site.php_admin_value = table(&pool.php_admin_values);
    let env = table(&pool.env).into_iter();
    site.env = env.map(|(name, value)| (name, Secret::new(value))).collect();
    site.inherit_env = !pool.clear_env;
    site.dumpable = pool.process_dumpable;
    site.fpm = Some(Arc::new(pool.clone()));
    site
}

fn size(pool: &tokamak_fpm::Pool) -> PoolSize {
    let number = |number: u32| (number as usize).min(WORKERS);
    let max = number(pool.max_children);
    match pool.manager {
        Manager::Static => PoolSize::Static { workers: max },
        Manager::Dynamic { start, min_spare, max_spare, .. } => PoolSize::Dynamic {
            start: number(start),
            min_spare: number(min_spare),
            max_spare: number(max_spare),
            max,
        },
        Manager::OnDemand { idle_timeout } => PoolSize::Ondemand { max, idle: idle_timeout },
    }
}

/// The first address of a name on which one can listen, as php-fpm takes it.
fn resolve(address: &Address) -> Result<FpmAddress, Message> {
    let (host, port) = match address {
        Address::Unix(path) => return Ok(FpmAddress::Unix(path.clone())),
        Address::Port(port) => (None, port),
        Address::Tcp { host, port } => (Some(host), port),
    };
    let wrong = |what: String| Message::new(Level::Error, what);
    let port: u16 = port
        .parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| wrong(format!("invalid port value '{port}'")))?;
    let Some(host) = host else {
        // It takes IPv4 as well, but is not to be had where the kernel has no IPv6.
        let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        let every: IpAddr =
            if has_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        return Ok(FpmAddress::Tcp((every, port).into()));
    };
    let mut found = (host.as_str(), port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        let reason = text.rsplit(": ").next().unwrap_or_default();
        wrong(format!("cannot resolve hostname '{host}': {reason}"))
    })?;
    found
        .next()
        .map(FpmAddress::Tcp)
        .ok_or_else(|| wrong(format!("cannot resolve hostname '{host}'")))
}
