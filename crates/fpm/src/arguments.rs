//! The command line of php-fpm, as php-fpm reads it: options in any order, several letters in one
//! word, a value behind its letter, behind `=` or in the next word. The first word that is no
//! option ends it, and what follows is ignored.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use tokamak_sys::control::key;

use crate::load::Options;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Serve,
    /// `-t`: test the configuration; `-tt`: and show it.
    Test {
        /// Show it.
        dump: bool,
    },
    /// `-v`: PHP's version.
    Version,
    /// `-i`: what PHP says of itself.
    Info,
    /// `-m`: PHP's modules.
    Modules,
    /// `-h`, `-?`: the options.
    Help,
}

/// The command line, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// What to do.
    pub command: Command,
    /// What concerns the configuration.
    pub options: Options,
    /// What concerns PHP's own settings.
    pub php: PhpOptions,
    /// `-O`, `--force-stderr`: write the log to standard error in the foreground, terminal or not.
    pub force_stderr: bool,
    /// `--pools FILE`: what php-fpm does not know of pools, such as their mode.
    pub pools: Option<PathBuf>,
}

/// What concerns PHP's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhpOptions {
    /// `-n`: no `php.ini`.
    pub no_ini: bool,
    /// `-c`: where `php.ini` is, a file or its folder.
    pub ini: Option<String>,
    /// `-d NAME=VALUE`, in their order; without a value it is `1`.
    pub define: Vec<(String, String)>,
    /// `-e`: compile for debuggers.
    pub extended_info: bool,
}

impl PhpOptions {
    /// The same as settings of a PHP process: names of [`key`] and values.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut settings = Vec::new();
        let mut set =
            |name: &str, value: &str| settings.push((name.to_string(), value.to_string()));
        set(key::INI_OF, "fpm");
        if self.no_ini {
            set(key::NO_INI, "1");
        }
        if let Some(ini) = &self.ini {
            set(key::INI_FILE, ini);
        }
        if self.extended_info {
            set(key::EXTENDED_INFO, "1");
        }
        for (name, value) in &self.define {
            set(&format!("{}{name}", key::DEFINE), value);
        }
        settings
    }
}

/// An option that does not exist, or lacks its value. php-fpm shows the options and ends with
/// status 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageError;

/// Each option: letter, long name, whether it has a value.
const OPTIONS: &[(u8, &str, bool)] = &[
    (b'c', "php-ini", true),
    (b'd', "define", true),
    (b'e', "profile-info", false),
    (b'h', "help", false),
    (b'i', "info", false),
    (b'm', "modules", false),
    (b'n', "no-php-ini", false),
    (b'?', "usage", false),
    (b'v', "version", false),
    (b'y', "fpm-config", true),
    (b't', "test", false),
    (b'p', "prefix", true),
    (b'g', "pid", true),
    (b'R', "allow-to-run-as-root", false),
    (b'D', "daemonize", false),
    (b'F', "nodaemonize", false),
    (b'O', "force-stderr", false),
    (POOLS, "pools", true),
];

/// `--pools` has no letter.
const POOLS: u8 = 0;

/// What `-h` shows.
pub fn usage() -> String {
    format!(
        "\
Usage: tokamak fpm [-n] [-e] [-h] [-i] [-m] [-v] [-t] [-p <prefix>] [-g <pid>] [-c <file>] [-d \
foo[=bar]] [-y <file>] [-D] [-F [-O]]
  -c <path>|<file> Look for php.ini file in this directory
  -n               No php.ini file will be used
  -d foo[=bar]     Define INI entry foo with value 'bar'
  -e               Generate extended information for debugger/profiler
  -h               This help
  -i               PHP information
  -m               Show compiled in modules
  -v               Version number
  -p, --prefix <dir>
                   Specify alternative prefix path to FastCGI process manager (default: {}).
  -g, --pid <file>
                   Specify the PID file location.
  -y, --fpm-config <file>
                   Specify alternative path to FastCGI process manager config file
                   (default: {}).
  -t, --test       Test FPM configuration and exit; twice: show it, too
  -D, --daemonize  force to run in background, and ignore daemonize option from config file
  -F, --nodaemonize
                   force to stay in foreground, and ignore daemonize option from config file
  -O, --force-stderr
                   force output to stderr in nodaemonize even if stderr is not a TTY
  -R, --allow-to-run-as-root
                   Allow pool to run as root (disabled by default)
  --pools <file>   What php-fpm does not know of pools: their mode and its scripts
",
        crate::paths::PREFIX,
        crate::paths::CONFIG
    )
}

/// Understands the words behind `tokamak fpm`.
pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Arguments, UsageError> {
    let mut words = words.into_iter();
    let mut parsed = Parsed::default();
    while let Some(word) = words.next() {
        let word = word.into_vec();
        if let Some(long) = word.strip_prefix(b"--") {
            if long.is_empty() {
                break;
            }
            let mut parts = long.splitn(2, |byte| *byte == b'=');
            let name = parts.next().unwrap_or_default();
            let (letter, _, takes) =
                OPTIONS.iter().find(|(_, known, _)| known.as_bytes() == name).ok_or(UsageError)?;
            let value = match (takes, parts.next()) {
                (true, Some(value)) => Some(value.to_vec()),
                (true, None) => Some(words.next().ok_or(UsageError)?.into_vec()),
                (false, _) => None,
            };
            parsed.take(*letter, value.unwrap_or_default());
        } else if let Some(letters) = word.strip_prefix(b"-").filter(|letters| !letters.is_empty())
        {
            let mut rest = letters;
            while let Some((letter, behind)) = rest.split_first() {
                rest = behind;
                let known = OPTIONS.iter().find(|(known, ..)| known == letter && *known != POOLS);
                let (_, _, takes) = known.ok_or(UsageError)?;
                if !takes {
                    parsed.take(*letter, Vec::new());
                    continue;
                }
                let value = match rest {
                    [] => words.next().ok_or(UsageError)?.into_vec(),
                    [b'=', value @ ..] | value => value.to_vec(),
                };
                parsed.take(*letter, value);
                break;
            }
        } else {
            break;
        }
        // php-fpm answers these as soon as it reads them.
        if parsed.ends {
            break;
        }
    }
    Ok(parsed.arguments())
}

#[derive(Default)]
struct Parsed {
    command: Option<Command>,
    ends: bool,
    tests: u32,
    info: bool,
    options: Options,
    php: PhpOptions,
    force_stderr: bool,
    pools: Option<PathBuf>,
}

fn path(value: Vec<u8>) -> PathBuf {
    OsStr::from_bytes(&value).into()
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

impl Parsed {
    fn take(&mut self, letter: u8, value: Vec<u8>) {
        match letter {
            b'c' => self.php.ini = Some(text(&value)),
            b'd' => self.php.define.push(definition(&text(&value))),
            b'e' => self.php.extended_info = true,
            b'n' => self.php.no_ini = true,
            b'i' => self.info = true,
            b'm' => self.end(Command::Modules),
            b'v' => self.end(Command::Version),
            b'y' => self.options.file = Some(path(value)),
            b't' => self.tests += 1,
            b'p' => self.options.prefix = Some(text(&value)),
            b'g' => self.options.pid = Some(text(&value)),
            b'R' => self.options.run_as_root = true,
            b'D' => self.options.daemonize = Some(true),
            b'F' => self.options.daemonize = Some(false),
            b'O' => self.force_stderr = true,
            POOLS => self.pools = Some(path(value)),
            _ => self.end(Command::Help),
        }
    }

    fn end(&mut self, command: Command) {
        self.ends = true;
        self.command.get_or_insert(command);
    }

    fn arguments(self) -> Arguments {
        let command = self.command.unwrap_or(match (self.info, self.tests) {
            (true, _) => Command::Info,
            (false, 0) => Command::Serve,
            (false, tests) => Command::Test { dump: tests > 1 },
        });
        Arguments {
            command,
            options: self.options,
            php: self.php,
            force_stderr: self.force_stderr,
            pools: self.pools,
        }
    }
}

fn definition(text: &str) -> (String, String) {
    match text.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (text.to_string(), "1".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Arguments, UsageError> {
        parse(words.iter().map(OsString::from))
    }

    fn good(words: &[&str]) -> Arguments {
        read(words).unwrap_or_else(|_| panic!("{words:?}"))
    }

    #[test]
    fn each_way_to_give_a_value() {
        let file = Some(PathBuf::from("a.conf"));
        for words in [
            &["-y", "a.conf"][..],
            &["-ya.conf"],
            &["-y=a.conf"],
            &["--fpm-config", "a.conf"],
            &["--fpm-config=a.conf"],
            &["-Fy", "a.conf"],
        ] {
            assert_eq!(good(words).options.file, file, "{words:?}");
        }
        assert_eq!(good(&["--pools=x.toml"]).pools, Some("x.toml".into()));
    }

    #[test]
    fn what_the_tests_of_php_fpm_type() {
        let all = good(&[
            "-n",
            "-d",
            "extension=posix",
            "-y",
            "a",
            "-O",
            "-F",
            "-dlog_errors=1",
            "-da",
            "--allow-to-run-as-root",
            "--prefix",
            "/srv",
        ]);
        assert_eq!(all.command, Command::Serve);
        assert!(all.php.no_ini && all.force_stderr && all.options.run_as_root);
        let define = [("extension", "posix"), ("log_errors", "1"), ("a", "1")];
        assert_eq!(
            all.php.define,
            define.map(|(name, value)| (name.to_string(), value.to_string()))
        );
        assert_eq!((all.options.daemonize, all.options.prefix), (Some(false), Some("/srv".into())));
    }

    #[test]
    fn command_line_options_become_settings_of_php() {
        let settings =
            good(&["-n", "-c", "/etc/php", "-e", "-dmemory_limit=1G", "-d", "x"]).php.settings();
        let expected = [
            ("ini_of", "fpm"),
            ("no_ini", "1"),
            ("ini_file", "/etc/php"),
            ("extended_info", "1"),
            ("define.memory_limit", "1G"),
            ("define.x", "1"),
        ];
        assert_eq!(settings, expected.map(|(name, value)| (name.to_string(), value.to_string())));
        assert_eq!(good(&[]).php.settings(), [("ini_of".to_owned(), "fpm".to_owned())]);
    }

    #[test]
    fn what_is_wanted() {
        for (words, command) in [
            (&["-t"][..], Command::Test { dump: false }),
            (&["-tt"], Command::Test { dump: true }),
            (&["-t", "--test"], Command::Test { dump: true }),
            (&["-n", "-v"], Command::Version),
            (&["-i", "-t"], Command::Info),
            (&["-m"], Command::Modules),
            (&["-h", "-Z"], Command::Help),
            (&["-?"], Command::Help),
            (&["--usage"], Command::Help),
            (&["-F", "--", "-v"], Command::Serve),
            (&["-F", "word", "-v"], Command::Serve),
            (&["-"], Command::Serve),
            (&[], Command::Serve),
        ] {
            assert_eq!(good(words).command, command, "{words:?}");
        }
    }

    #[test]
    fn what_is_no_option() {
        for words in
            [&["-Z"][..], &["--memory-limit=1G"], &["-y"], &["--pid"], &["-FZ"], &["-\0", "x"]]
        {
            assert_eq!(read(words), Err(UsageError), "{words:?}");
        }
    }

    #[test]
    fn the_usage_names_every_option() {
        let usage = usage();
        for (letter, name, _) in OPTIONS.iter().filter(|(letter, ..)| *letter != b'?') {
            let letter = format!("-{}", char::from(*letter));
            assert!(usage.contains(&letter) || usage.contains(&format!("--{name}")), "{name}");
        }
    }
}
