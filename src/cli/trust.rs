//! `tokamak trust`: lets the programs of a machine trust the authority for its local names.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use tokamak_authority::store::{Outcome, Problem, Store};
use tokamak_authority::{Authority, root, root_path};
use tokamak_config::{CONFIG_VARIABLE, FILE_NAME, option, state_directory};
use tokamak_sys::process;

use super::{environment, print, site};

/// `tokamak trust`.
#[derive(Args, Debug)]
pub struct Trust {
    /// Trust it no longer.
    #[arg(long)]
    remove: bool,
    /// Configuration of the server, whose `state_dir` is meant; tokamak.toml here, if there is one.
    #[arg(long, value_name = "FILE", conflicts_with = "state_dir")]
    config: Option<PathBuf>,
    /// Directory in which the server keeps the authority; its `state_dir` [env: TOKAMAK_STATE_DIR].
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Root directory of the system that is to trust it, for a system that does not run, such as an
    /// image.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

impl Trust {
    /// Puts the certificate of the authority into the store of the system, or removes it.
    ///
    /// # Errors
    /// Fails with what to do instead.
    pub fn run(self) -> Result<(), String> {
        let state_dir = self.state_directory()?;
        // An authority of another user is read, and nothing is made for that user.
        let known = root(&state_dir)?;
        let certificate = match known {
            None if self.remove => {
                let state_dir = state_dir.display();
                return Err(format!("there is no authority in {state_dir}; name its --state-dir"));
            }
            None => {
                refuse_folder_of_another(&state_dir)?;
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Authority::open(&state_dir, now)?;
                root(&state_dir)?.ok_or("another program removes the authority")?
            }
            Some(certificate) => certificate,
        };
        let name = &*certificate.name;
        let file = root_path(&state_dir);
        let store = Store::find(&self.root).ok_or_else(|| {
            format!(
                "{} is no system whose store of certificates is known; add {} to it",
                self.root.display(),
                file.display()
            )
        })?;
        let outcome = match self.remove {
            true => store.remove(name),
            false => store.add(name, certificate.pem.as_bytes()),
        };
        let outcome = outcome.map_err(|problem| self.explain(problem, &state_dir))?;
        let path = store.path(name);
        let text = self.report(&outcome, name, &path);
        print(text.as_bytes()).map_err(|error| error.to_string())
    }

    /// As the server finds it. Without a file of its configuration no site need be here.
    fn state_directory(&self) -> Result<PathBuf, String> {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let of_environment = || {
            let row = option::rows().find(|row| row.key() == "state_dir")?;
            variable(row.variable?).map(PathBuf::from)
        };
        let has_file = self.config.is_some()
            || variable(CONFIG_VARIABLE).is_some()
            || Path::new(FILE_NAME).is_file();
        match self.state_dir.clone().or_else(of_environment) {
            Some(named) => Ok(named),
            None if has_file => site::request(None, self.config.clone(), Vec::new())
                .and_then(|request| Ok(request.load()?.state_dir))
                .map_err(|wrong| wrong.to_string()),
            None => Ok(state_directory(&environment())),
        }
    }

    fn explain(&self, problem: Problem, state_dir: &Path) -> String {
        let remove = if self.remove { " --remove" } else { "" };
        let as_root = format!("`sudo tokamak trust{remove} --state-dir {}`", state_dir.display());
        match problem {
            Problem::Update(problem) if !process::is_root() => {
                format!("{problem}, as root: {as_root}")
            }
            Problem::Update(problem) | Problem::Other(problem) => problem,
            Problem::Forbidden(path) => {
                format!("{} is for root to change: {as_root}", path.display())
            }
        }
    }

    fn report(&self, outcome: &Outcome, name: &str, path: &Path) -> String {
        let path = path.display();
        let mut text = match (outcome.is_changed, self.remove) {
            (false, false) => format!("{path} is there already\n"),
            (false, true) => format!("{path} is not there\n"),
            (true, false) => format!("{path} added\n"),
            (true, true) => format!("{path} removed\n"),
        };
        match &outcome.pending {
            None if self.remove => text.push_str("the system trusts it no longer\n"),
            None => text.push_str("the system trusts it\n"),
            Some(command) => {
                text.push_str(&format!("to be run in {}: {command}\n", self.root.display()));
            }
        }
        let (verb, arguments) = match self.remove {
            true => ("forget", format!("-D -n '{name}'")),
            false => ("trust", format!("-A -t C,, -n '{name}' -i {path}")),
        };
        // Chromium made its store in the first folder before it made it in the second.
        text.push_str(&format!(
            "Firefox and Chromium have stores of their own, once they have run. To let them {verb} \
                it, as their user:\n  \
                for db in $HOME/.pki/nssdb $HOME/.local/share/pki/nssdb $HOME/.mozilla/firefox/*; do\n    \
                [ ! -e $db/cert9.db ] || certutil -d sql:$db {arguments}\n  done\n\
                certutil is in the package libnss3-tools or nss-tools\n"
        ));
        text
    }
}

/// Root makes no folder where another user's server would: that server could not use it.
fn refuse_folder_of_another(state_dir: &Path) -> Result<(), String> {
    if !process::is_root() {
        return Ok(());
    }
    let path = std::path::absolute(state_dir).map_err(|error| error.to_string())?;
    let existing = path.ancestors().find_map(|folder| Some((folder, fs::metadata(folder).ok()?)));
    match existing {
        Some((folder, found)) if found.uid() != 0 => Err(format!(
            "there is no authority in {}, and {} is another user's: start the server first, or run \
                this as its user",
            state_dir.display(),
            folder.display()
        )),
        _ => Ok(()),
    }
}
