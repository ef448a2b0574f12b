//! Loads a configuration: reads the file, validates and resolves it, and collects the messages.

use std::path::PathBuf;

use crate::config::{Config, ErrorLog};
use crate::directive::{self, Row};
use crate::host::Host;
use crate::message::{Level, Message};
use crate::paths;
use crate::raw;
use crate::read::{self, Sections};
use crate::resolve::resolve;
use crate::validate::{self, Above};

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-y`, `--fpm-config`. Without it `etc/php-fpm.conf` below the prefix, else
    /// `/etc/php-fpm.conf`.
    pub file: Option<PathBuf>,
    /// `-p`, `--prefix`
    pub prefix: Option<String>,
    /// `-g`, `--pid`
    pub pid: Option<String>,
    /// `-D` (yes) or `-F` (no)
    pub daemonize: Option<bool>,
    /// `-R`, `--allow-to-run-as-root`
    pub run_as_root: bool,
}

impl Options {
    /// The file that is read.
    pub fn path(&self) -> PathBuf {
        match (&self.file, &self.prefix) {
            (Some(file), _) => file.clone(),
            (None, Some(prefix)) => format!("{prefix}/etc/php-fpm.conf").into(),
            (None, None) => paths::CONFIG.into(),
        }
    }
}

/// The result of reading a configuration.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What is to be logged, in this order, also if there is no configuration. Messages below the
    /// configuration's `log_level` have been left out.
    pub messages: Vec<Message>,
    /// The configuration, unless the messages say why there is none.
    pub config: Option<Config>,
}

/// Reads a configuration that is to be served.
pub fn load(options: &Options, host: &dyn Host) -> Loaded {
    let mut messages = Vec::new();
    let config = sections(options, host, &mut messages).and_then(|mut sections| {
        for pool in &mut sections.pools {
            validate::identity(pool, &above(options), host, &mut messages)?;
        }
        let config = resolve(&options.path(), &sections, &|name| host.variable(name));
        if matches!(config.global.error_log, ErrorLog::Syslog) {
            let text = "error_log = syslog has no effect here: the log is standard error";
            messages.push(Message::new(Level::Warning, text));
        }
        report_invalid_clients(&config, &mut messages);
        report_ignored_owners(&config, &mut messages);
        messages.retain(|message| message.level >= config.global.log_level);
        Ok(config)
    });
    finish(config, messages)
}

/// Reports `listen.allowed_clients` that are not addresses, as each of php-fpm's workers does when
/// it starts.
fn report_invalid_clients(config: &Config, messages: &mut Vec<Message>) {
    for pool in &config.pools {
        let Some(clients) = &pool.listen.allowed_clients else { continue };
        let mut say = |text: String| {
            messages.push(Message::new(Level::Error, format!("[pool {}] {text}", pool.name)));
        };
        for wrong in &clients.wrong {
            say(format!("Wrong IP address '{wrong}' in listen.allowed_clients"));
        }
        if clients.addresses.is_empty() {
            say("There are no allowed addresses".into());
        }
    }
}

/// Warns of `listen.owner` and `listen.group` where an ACL overrides them.
fn report_ignored_owners(config: &Config, messages: &mut Vec<Message>) {
    for pool in &config.pools {
        let listen = &pool.listen;
        if listen.acl_users.is_empty() && listen.acl_groups.is_empty() {
            continue;
        }
        for (what, name) in [("listen.owner", &listen.owner), ("listen.group", &listen.group)] {
            if let Some(name) = name {
                let text = format!("[pool {}] ACL set, {what} = '{name}' is ignored", pool.name);
                messages.push(Message::new(Level::Warning, text));
            }
        }
    }
}

/// Reads a configuration only to say what is wrong with it (`-t`), and what it says (`-tt`) if
/// `dump` is set.
pub fn test(options: &Options, dump: bool, host: &dyn Host) -> Loaded {
    let mut messages = Vec::new();
    let config = sections(options, host, &mut messages).and_then(|mut sections| {
        for pool in &sections.pools {
            validate::names(pool, host)?;
        }
        let config = resolve(&options.path(), &sections, &|name| host.variable(name));
        if dump {
            self::dump(&mut sections, &mut messages);
        }
        let text = format!("configuration file {} test is successful\n", options.path().display());
        messages.push(Message::new(Level::Notice, text));
        messages.retain(|message| message.level >= config.global.log_level);
        Ok(config)
    });
    finish(config, messages)
}

fn finish(config: Result<Config, Message>, mut messages: Vec<Message>) -> Loaded {
    let config = config.map_err(|reason| messages.push(reason)).ok();
    if config.is_none() {
        messages.push(Message::new(Level::Error, "FPM initialization failed"));
    }
    Loaded { messages, config }
}

fn above(options: &Options) -> Above<'_> {
    Above {
        prefix: options.prefix.as_deref().filter(|prefix| !prefix.is_empty()),
        pid: options.pid.as_deref(),
        daemonize: options.daemonize,
        run_as_root: options.run_as_root,
    }
}

fn sections(
    options: &Options,
    host: &dyn Host,
    messages: &mut Vec<Message>,
) -> Result<Sections, Message> {
    let above = above(options);
    if let Some(prefix) = above.prefix.filter(|prefix| !paths::is_folder(prefix)) {
        let text = format!("the global prefix '{prefix}' does not exist or is not a directory");
        return Err(Message::new(Level::Error, text));
    }
    let file = options.path();
    let failed = |messages: &mut Vec<Message>, reason: Message, what: &str| {
        messages.push(reason);
        Message::new(Level::Error, what)
    };
    let mut sections = read::read(&file, above.prefix, &|name| host.variable(name), messages)
        .map_err(|reason| {
            failed(
                messages,
                reason,
                &format!("failed to load configuration file '{}'", file.display()),
            )
        })?;
    validate::validate(&mut sections, &above, host, messages)
        .map_err(|reason| failed(messages, reason, "failed to post process the configuration"))?;
    Ok(sections)
}

/// The whole configuration as php-fpm shows it.
fn dump(sections: &mut Sections, messages: &mut Vec<Message>) {
    let mut say = |text: String| messages.push(Message::new(Level::Notice, text));
    say("[global]".into());
    rows(directive::GLOBAL, &mut sections.global, &mut say);
    say(" ".into());
    for pool in &mut sections.pools {
        say(format!("[{}]", pool.name));
        pool_rows(pool, &mut say);
        say(" ".into());
    }
}

fn rows<T>(rows: &[Row<T>], raw: &mut T, say: &mut dyn FnMut(String)) {
    for row in rows {
        if let Some(value) = row.shown(raw) {
            say(format!("\t{} = {value}", row.name));
        }
    }
}

fn pool_rows(pool: &mut raw::Pool, say: &mut dyn FnMut(String)) {
    let after_format =
        directive::POOL.iter().position(|row| row.name == "access.format").map_or(0, |at| at + 1);
    let (before, after) = directive::POOL.split_at(after_format);
    rows(before, pool, say);
    for path in pool.access_suppress_paths.iter().rev() {
        say(format!("\taccess.suppress_path[] = {path}"));
    }
    rows(after, pool, say);
    let lists = [
        ("env", &pool.env),
        ("php_value", &pool.php_values),
        ("php_admin_value", &pool.php_admin_values),
    ];
    for (name, pairs) in lists {
        for (key, value) in pairs.iter().rev() {
            say(format!("\t{name}[{key}] = {value}"));
        }
    }
}
