//! What the supervisor says about the site, read from its key/value pairs.

use tokamak_sys::control::{ini_value, key};
use tokamak_sys::process::{Guard, Identity};

use crate::log::Level;

/// As `concurrency` in the configuration. Each has a stack, which is two of the 65 530 mappings
/// of a process; with the 10 000 coroutines that may be under way beside them they fit, with ten
/// times more not.
const MOST_AT_ONCE: usize = 10_000;

/// How requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Full request start-up and shutdown.
    Classic,
    /// The worker script's loop calls a handler.
    Worker,
    /// Every request starts from the same image of the booted application.
    Sealed,
    /// The worker script's loop calls a handler for many requests at once.
    Async,
}

/// One site's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name in log lines.
    pub site: String,
    /// How requests are served.
    pub mode: Mode,
    /// This process serves a sealed site without its image.
    pub stands_in: bool,
    /// The worker takes no request if something has changed that it has booted from.
    pub looks_at_boot: bool,
    /// Worker script: always in worker mode, perhaps in sealed mode.
    pub script: Option<String>,
    /// Script that is run once before the image is taken. Sealed mode only.
    pub boot: Option<String>,
    /// Targets that are requested before the image is taken. Sealed mode only.
    pub warm: Vec<String>,
    /// Document root.
    pub root: String,
    /// Kinds of state that worker mode resets: bits of `SHIM_RESET_*`.
    pub reset: u32,
    /// Requests that a worker has under way at once, in async mode; 0 otherwise.
    pub concurrency: usize,
    /// For tests of async mode: requests take turns at every wait, in an order drawn from this; 0:
    /// they do not.
    pub seed: u32,
    /// Requests after which a worker leaves; 0: never.
    pub max_requests: u64,
    /// What strings of the seal report's requests contain; [`None`]: no report is wanted.
    pub report: Option<String>,
    /// The pool of `tokamak fpm` that this is; [`None`]: a site, whose requests come over HTTP.
    pub fpm: Option<Fpm>,
    /// Settings of `php.ini`: name, value, whether scripts cannot change it.
    pub ini: Vec<(String, String, bool)>,
    /// Settings before those, the values written as in `php.ini`.
    pub define: Vec<(String, String)>,
    /// No `php.ini` is read.
    pub no_ini: bool,
    /// Where `php.ini` is.
    pub ini_file: Option<String>,
    /// The SAPI whose `php.ini` and `conf.d` are read, if not libphp's own.
    pub ini_of: Option<String>,
    /// Scripts are compiled for debuggers.
    pub extended_info: bool,
    /// Variables of the environment that PHP reads at its start and scripts do not see.
    pub hidden_env: Vec<String>,
    /// Others of the same user may look into the processes' memory.
    pub dumpable: bool,
    /// What keeps them from doing so when the process itself is open for a moment.
    pub guard: Option<Guard>,
    /// The descriptor by which workers reach the site's hub, if it has one.
    pub hub: Option<i32>,
    /// Workers count and time what each request calls in databases and in other servers.
    pub count_calls: bool,
    /// What workers write to their standard output and error is handed to the supervisor.
    pub catch_output: bool,
}

/// What only a pool of `tokamak fpm` has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fpm {
    /// Endings of files that may be run; empty: any.
    pub limit_extensions: Vec<String>,
    /// Least level of what a worker itself writes there.
    pub log_level: Level,
    /// Root directory of the workers.
    pub chroot: Option<String>,
    /// Their current directory.
    pub chdir: Option<String>,
    /// Their user, taken on after the root directory was entered.
    pub identity: Option<Identity>,
}

impl Fpm {
    /// A setting of a pool alone; false: it is none.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            key::LIMIT_EXTENSIONS => self.limit_extensions = words(value),
            key::LOG_LEVEL => {
                self.log_level = understood(name, value, Level::read(value), "level")?
            }
            key::CHROOT => self.chroot = Some(value.to_owned()),
            key::CHDIR => self.chdir = Some(value.to_owned()),
            key::IDENTITY => {
                self.identity = Some(understood(name, value, identity(value), "user")?)
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// What a value means; `kind`: what it has to be.
fn understood<T>(name: &str, value: &str, meaning: Option<T>, kind: &str) -> Result<T, String> {
    meaning.ok_or_else(|| format!("{name}={value} is no {kind}"))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `uid gid gid,gid,…`.
fn identity(text: &str) -> Option<Identity> {
    let mut words = text.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (uid, gid) = (number()?, number()?);
    let groups = words.next().unwrap_or("").split(',').filter(|word| !word.is_empty());
    Some(Identity::numbered(uid, gid, groups.map(str::parse).collect::<Result<_, _>>().ok()?))
}

/// Names as in the configuration; the position is the bit in `shim.h`.
const RESETS: [&str; 9] =
    ["ini", "error_handlers", "cwd", "umask", "locale", "timezone", "encodings", "env", "session"];

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            site: "-".to_owned(),
            mode: Mode::Classic,
            stands_in: false,
            looks_at_boot: false,
            script: None,
            boot: None,
            warm: Vec::new(),
            root: String::new(),
            reset: (1 << RESETS.len()) - 1,
            concurrency: 0,
            seed: 0,
            max_requests: 0,
            report: None,
            fpm: None,
            ini: Vec::new(),
            define: Vec::new(),
            no_ini: false,
            ini_file: None,
            ini_of: None,
            extended_info: false,
            hidden_env: Vec::new(),
            dumpable: false,
            guard: None,
            hub: None,
            count_calls: false,
            catch_output: false,
        }
    }
}

impl Settings {
    /// Reads the pairs of a `Settings` message. An unknown key is an error: the two programs would
    /// not mean the same.
    pub fn read(pairs: &[(String, String)]) -> Result<Settings, String> {
        let mut settings = Settings::default();
        let (mut fpm, mut is_fpm) = (Fpm::default(), false);
        for (name, value) in pairs {
            if name == key::FPM {
                is_fpm = true;
            } else if !settings.take(name, value)?
                && !fpm.take(name, value)?
                && !settings.take_listed(name, value)
            {
                return Err(format!("unknown setting {name}={value}"));
            }
        }
        if !is_fpm && fpm != Fpm::default() {
            return Err("settings of a FastCGI pool for a site".to_owned());
        }
        settings.fpm = is_fpm.then_some(fpm);
        match settings.fits_mode() {
            true => Ok(settings),
            false => Err("the scripts do not fit the mode".to_owned()),
        }
    }

    /// A setting that is given once; false: it is none.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            key::SITE => self.site = value.to_owned(),
            key::ROOT => self.root = value.to_owned(),
            key::SCRIPT => self.script = Some(value.to_owned()),
            key::BOOT => self.boot = Some(value.to_owned()),
            key::REPORT => self.report = Some(value.to_owned()),
            key::MODE => {
                self.mode = match value {
                    key::MODE_CLASSIC => Mode::Classic,
                    key::MODE_WORKER => Mode::Worker,
                    key::MODE_SEALED => Mode::Sealed,
                    key::MODE_ASYNC => Mode::Async,
                    _ => return Ok(false),
                }
            }
            key::MAX_REQUESTS => {
                self.max_requests = understood(name, value, value.parse().ok(), "number")?
            }
            key::CONCURRENCY => {
                let count = value.parse().ok().filter(|count| (1..=MOST_AT_ONCE).contains(count));
                self.concurrency = understood(name, value, count, "number of requests")?
            }
            key::SEED => self.seed = understood(name, value, value.parse().ok(), "number")?,
            key::NO_INI => self.no_ini = true,
            key::INI_FILE => self.ini_file = Some(value.to_owned()),
            key::INI_OF => self.ini_of = Some(value.to_owned()),
            key::EXTENDED_INFO => self.extended_info = true,
            key::HIDDEN_ENV => self.hidden_env = words(value),
            key::CATCH_OUTPUT => self.catch_output = true,
            key::DUMPABLE => self.dumpable = true,
            key::COUNT_CALLS => self.count_calls = true,
            key::GUARD => {
                let guard = value.parse().ok().and_then(Guard::numbered);
                self.guard = Some(understood(name, value, guard, "guard")?)
            }
            key::HUB => self.hub = Some(understood(name, value, value.parse().ok(), "number")?),
            key::KEEP => self.keep(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One of many of its kind, whose kind its name begins with; false: it is none.
    fn take_listed(&mut self, name: &str, value: &str) -> bool {
        let value = value.to_owned();
        if let Some(ini) = name.strip_prefix(key::INI) {
            self.ini.push((ini.to_owned(), value, false));
        } else if let Some(ini) = name.strip_prefix(key::ADMIN) {
            self.ini.push((ini.to_owned(), value, true));
        } else if let Some(ini) = name.strip_prefix(key::DEFINE) {
            self.define.push((ini.to_owned(), value));
        } else if name.starts_with(key::WARM) {
            // In the order in which they are to be requested.
            self.warm.push(value);
        } else {
            // The environment is the process's own already.
            return name.starts_with(key::ENV);
        }
        true
    }

    /// Kinds of state, with commas between them, that worker mode does not reset.
    fn keep(&mut self, kinds: &str) -> Result<(), String> {
        for kind in kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty()) {
            let bit = RESETS.iter().position(|known| *known == kind);
            let bit = bit.ok_or_else(|| format!("{}={kinds}: unknown {kind}", key::KEEP))?;
            self.reset &= !(1 << bit);
        }
        Ok(())
    }

    fn fits_mode(&self) -> bool {
        let has_only_own = match self.mode {
            Mode::Classic => self.script.is_none(),
            Mode::Worker | Mode::Async => self.script.is_some(),
            Mode::Sealed => self.script.is_none() || self.boot.is_none(),
        };
        let may_boot = matches!(self.mode, Mode::Sealed | Mode::Classic);
        has_only_own
            && (self.mode == Mode::Sealed || self.warm.is_empty())
            && (may_boot || self.boot.is_none())
            && (self.mode == Mode::Async) == (self.concurrency > 0)
    }

    /// The `php.ini` settings as text of such a file.
    pub fn ini_text(&self) -> String {
        let define =
            self.define.iter().map(|(name, value)| format!("{name}={}\n", as_typed(value)));
        let others =
            self.ini.iter().map(|(name, value, _)| format!("{name}={}\n", ini_value(value)));
        define.chain(others).collect()
    }
}

/// A value of `-d`: quoted by who typed it, or, if it begins with another sign than a letter or
/// digit, here.
fn as_typed(value: &str) -> String {
    match value.chars().next() {
        Some(c) if !c.is_ascii_alphanumeric() && !"\"'".contains(c) => format!("\"{value}\""),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let pairs: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::read(&pairs)
    }

    #[test]
    fn pairs_become_settings() {
        let s = read(&[
            ("site", "a"),
            ("mode", "worker"),
            ("script", "/w.php"),
            ("root", "/srv"),
            ("keep", "ini, session"),
            ("max_requests", "5"),
            ("ini.a.b", "1"),
            ("admin.c", "x y"),
            ("env.E", "1"),
        ])
        .unwrap();
        assert_eq!(
            (s.script.as_deref(), s.max_requests, s.reset),
            (Some("/w.php"), 5, 0b0_1111_1110)
        );
        assert_eq!(s.ini_text(), "a.b=1\nc=\"x y\"\n");
        assert!(s.ini[1].2 && !s.ini[0].2);
        assert_eq!((s.mode, s.boot, s.warm), (Mode::Worker, None, vec![]));
    }

    #[test]
    fn a_sealed_site_may_have_a_boot_script_and_targets_or_a_worker_script_or_neither() {
        let s = read(&[
            ("mode", "sealed"),
            ("boot", "/b.php"),
            ("warm.0", "/"),
            ("warm.1", "/login?a=b"),
        ])
        .unwrap();
        assert_eq!((s.mode, s.boot.as_deref(), s.script), (Mode::Sealed, Some("/b.php"), None));
        assert_eq!(s.warm, ["/", "/login?a=b"]);
        let s = read(&[("mode", "sealed"), ("script", "/w.php"), ("warm.0", "/")]).unwrap();
        assert_eq!((s.script.as_deref(), s.boot), (Some("/w.php"), None));
        assert_eq!(read(&[("mode", "sealed")]).unwrap().mode, Mode::Sealed);
    }

    #[test]
    fn settings_of_the_command_line_come_first_and_as_typed() {
        let s = read(&[
            ("ini.a", "x y"),
            ("define.a", "b c"),
            ("define.a", "'d'"),
            ("define.e", "/f g"),
            ("define.h", ""),
            ("no_ini", "1"),
            ("ini_file", "/etc/php.ini"),
            ("extended_info", "1"),
        ])
        .unwrap();
        assert_eq!(s.ini_text(), "a=b c\na='d'\ne=\"/f g\"\nh=\na=\"x y\"\n");
        assert!(s.no_ini && s.extended_info && s.ini_file.as_deref() == Some("/etc/php.ini"));
    }

    #[test]
    fn a_pool_of_fpm_has_settings_of_its_own() {
        let s = read(&[
            ("fpm", "1"),
            ("limit_extensions", ".php .phar"),
            ("log_level", "error"),
            ("chroot", "/srv"),
            ("identity", "33 34 35,36"),
        ])
        .unwrap();
        let fpm = s.fpm.unwrap();
        assert_eq!(
            (fpm.limit_extensions, fpm.log_level),
            (vec![".php".into(), ".phar".into()], Level::Error)
        );
        assert_eq!(fpm.identity, Some(Identity::numbered(33, 34, vec![35, 36])));
        assert!(fpm.chdir.is_none());
        let identity = read(&[("fpm", "1"), ("identity", "0 0 ")]).unwrap().fpm.unwrap().identity;
        assert!(identity.unwrap().groups().is_empty());
        assert!(read(&[("fpm", "1"), ("identity", "www-data 33 ")]).is_err());
        assert!(read(&[("fpm", "1"), ("log_level", "loud")]).is_err());
        assert!(read(&[("chroot", "/srv")]).is_err());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(read(&[("colour", "red")]).is_err());
        assert!(read(&[("mode", "async"), ("concurrency", "2")]).is_err());
        assert!(read(&[("mode", "async"), ("script", "/w.php")]).is_err());
        assert!(read(&[("mode", "worker"), ("script", "/w.php"), ("concurrency", "2")]).is_err());
        assert!(
            read(&[("mode", "async"), ("script", "/w.php"), ("concurrency", "2")])
                .is_ok_and(|settings| settings.concurrency == 2)
        );
        assert!(read(&[("keep", "nothing")]).is_err());
        assert!(read(&[("mode", "worker")]).is_err());
        assert!(read(&[("mode", "classic"), ("script", "/w.php")]).is_err());
        assert!(read(&[("mode", "sealed"), ("script", "/w.php"), ("boot", "/b.php")]).is_err());
        assert!(read(&[("mode", "worker"), ("script", "/w.php"), ("warm.0", "/")]).is_err());
        assert!(read(&[("mode", "worker"), ("script", "/w.php"), ("boot", "/b.php")]).is_err());
        // Of a site of which no image can be taken.
        assert!(read(&[("mode", "classic"), ("boot", "/b.php")]).is_ok());
    }
}
