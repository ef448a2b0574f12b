//! Everything that decides a configuration, taken together: file, environment, flags and the `PATH`
//! of `tokamak serve`. The server keeps its [`Request`] and loads it again at each reload.

use std::path::{Path, PathBuf};

use crate::error::{Errors, Location};
use crate::model::Server;
use crate::origin::{Given, Origin};
use crate::parse::parse;
use crate::raw::Raw;
use crate::resolve::{self, Surroundings};
use crate::value::{Auto, Nothing, Text};

/// The file that is read if no other is named and it stands in the served directory.
pub const FILE_NAME: &str = "tokamak.toml";

/// The environment variable that names the file.
pub const CONFIG_VARIABLE: &str = "TOKAMAK_CONFIG";

/// Environment variables that say where a server keeps what has to outlive it.
pub const STATE_VARIABLES: [&str; 3] = ["STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"];

/// Where a server of root keeps it.
const STATE_DIRECTORY: &str = "/var/lib/tokamak";

const CONFIG_FLAG: &str = "--config";
const PATH: &str = "PATH";

/// What was asked for on the command line and in the environment.
#[derive(Clone, Debug)]
pub struct Request {
    /// `PATH` of `tokamak serve`: an application's directory, or one script.
    pub path: Option<PathBuf>,
    /// `--config`.
    pub config: Option<PathBuf>,
    /// Flags with their values, by the names in the table of options. Lists are joined by commas.
    pub flags: Vec<(&'static str, String)>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// The current directory, absolute.
    pub directory: PathBuf,
}

/// Whom root serves a domain as, if there is that user: the one whom web servers run as.
fn web_user() -> Option<&'static str> {
    const NAME: &str = "www-data";
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    users.lines().any(|line| line.split(':').next() == Some(NAME)).then_some(NAME)
}

impl Request {
    /// Reads the file, if there is one, and finds out what it all means; or reports all that is
    /// wrong.
    pub fn load(&self) -> Result<Server, Errors> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.load_for(cores)
    }

    /// [`Request::load`] on a machine with this many cores.
    pub fn load_for(&self, cores: usize) -> Result<Server, Errors> {
        let mut errors = Errors::default();
        let found = self.file();
        let mut raw = match &found {
            Some((file, location)) => {
                let text = self.read(file, location)?;
                match parse(&text, file, &mut errors) {
                    Some(raw) => raw,
                    // No TOML: what the rest means cannot be known.
                    None => return errors.unless_any(None),
                }
            }
            None => Raw::new(None),
        };
        raw.environment(&self.environment, &mut errors);
        raw.flags(&self.flags, &mut errors);
        let zero = found.is_none()
            && raw.only_site().is_ok_and(|site| site.site.root.origin == Origin::Default);
        match &self.path {
            Some(path) if !matches!(found, Some((_, Location::Flag(PATH)))) => {
                serve_path(&self.directory.join(path), &mut raw, &mut errors);
            }
            None if zero => serve_path(&self.directory, &mut raw, &mut errors),
            _ => {}
        }
        if raw.sites.is_empty() {
            let _made = raw.only_site();
        }
        raw.spell_out_domain(web_user(), &mut errors);
        let path =
            self.environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
        let state = state_directory(&self.environment);
        let around = Surroundings { directory: &self.directory, cores, state: &state, path };
        let server = resolve::server(&raw, &around, &mut errors);
        errors.unless_any(Some(server))
    }

    /// The file to read, and how it was named: by the flag, the variable, or `PATH` for a file that
    /// was found there.
    fn file(&self) -> Option<(PathBuf, Location)> {
        if let Some(file) = &self.config {
            return Some((file.clone(), Location::Flag(CONFIG_FLAG)));
        }
        let variable = self
            .environment
            .iter()
            .find(|(name, value)| name == CONFIG_VARIABLE && !value.is_empty());
        if let Some((_, file)) = variable {
            return Some((file.into(), Location::Environment(CONFIG_VARIABLE)));
        }
        let found = match &self.path {
            // The name as typed, so that errors show it as the operator knows it.
            Some(typed) if self.directory.join(typed).is_dir() => typed.join(FILE_NAME),
            Some(_) => return None,
            None => PathBuf::from(FILE_NAME),
        };
        self.directory.join(&found).is_file().then_some((found, Location::Flag(PATH)))
    }

    fn read(&self, file: &Path, location: &Location) -> Result<String, Errors> {
        let bytes = std::fs::read(self.directory.join(file)).map_err(|error| {
            Errors::one(
                location.clone(),
                format!("cannot read {}: {error}; correct the path", file.display()),
            )
        })?;
        String::from_utf8(bytes).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            let problem = "this is not UTF-8; save the file in that encoding";
            Errors::one(Location::File(file.to_owned(), Some(line)), problem)
        })
    }
}

/// Where a server keeps what has to outlive it, if its configuration names no other place.
pub fn state_directory(environment: &[(String, String)]) -> PathBuf {
    let variable = |name: &str| {
        let set = environment.iter().find(|(other, _)| other == name)?;
        // A service may have several directories; the first one is meant.
        set.1.split(':').next().map(PathBuf::from).filter(|path| path.is_absolute())
    };
    let of_user = || {
        let state = variable("XDG_STATE_HOME");
        let state = state.or_else(|| Some(variable("HOME")?.join(".local/state")))?;
        Some(state.join("tokamak")).filter(|_| !rustix::process::geteuid().is_root())
    };
    variable("STATE_DIRECTORY").or_else(of_user).unwrap_or_else(|| STATE_DIRECTORY.into())
}

/// Makes the only site serve `path`: a script that answers for everything in its directory, or an
/// application.
fn serve_path(path: &Path, raw: &mut Raw, errors: &mut Errors) {
    let site = match raw.only_site() {
        Ok(site) => &mut site.site,
        Err(problem) => return errors.add(Location::Flag(PATH), "", problem),
    };
    let origin = Origin::Flag(PATH);
    let mut root = path.to_owned();
    if path.is_file() {
        if path.extension().is_some_and(|extension| extension == "toml") {
            let problem = format!("{} looks like a configuration; use --config", path.display());
            errors.add(Location::Flag(PATH), "", problem);
        }
        root = path.parent().unwrap_or(path).to_owned();
        let script = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        site.front_controller = Given { value: Auto::Is(Nothing::Is(Text(script))), origin };
    } else if path.is_dir() {
        match resolve::discover(path) {
            Ok(found) => root = found,
            Err(problem) => errors.add(Location::Flag(PATH), "", problem),
        }
    }
    site.root = Given { value: Auto::Is(root), origin };
}
