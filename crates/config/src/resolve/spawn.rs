//! Applications that the server starts: which program, and where.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Reader, number, text};
use crate::model::{Secret, Spawn};
use crate::option::{self, Section};
use crate::origin::Origin;
use crate::value::Text;

/// What the system searches when there is no `PATH`.
const NO_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Reader<'_> {
    /// How an upstream is started, if it is.
    pub(super) fn spawn(&mut self, values: &option::Upstream, table: Origin) -> Option<Spawn> {
        let Some((Text(name), arguments)) = values.spawn.value.split_first() else {
            self.nothing_to_start(values);
            return None;
        };
        if !values.address.value.is_empty() {
            let problem =
                "the sockets of `spawn` are made by the server; remove this key, or `spawn`";
            self.report("upstream", "address", values.address.origin, problem.into());
        }
        let given = &values.directory;
        let directory = match &given.value {
            Some(path) => self.absolute(path, given.origin),
            None => self.absolute(Path::new("."), table),
        };
        if values.group.value.is_some() && values.user.value.is_none() {
            let problem = "a group goes with a user; set `user` too";
            self.report("upstream", "group", values.group.origin, problem.into());
        }
        if !directory.is_dir() {
            let problem = format!(
                "{} is not a directory; create it or correct the path",
                directory.display()
            );
            self.report("upstream", "directory", given.origin, problem);
        }
        let found = self.program(name, &directory, values);
        if found.is_none() {
            let place =
                if name.contains('/') { directory.display().to_string() } else { "PATH".into() };
            let problem =
                format!("there is no program `{name}` in {place}; install it or correct the name");
            self.report("upstream", "spawn", values.spawn.origin, problem);
        }
        Some(Spawn {
            program: found?,
            arguments: arguments.iter().map(|text| text.0.clone()).collect(),
            processes: number(values.processes.value.0),
            shared: values.shared.value,
            directory,
            env: values.env.value.clone(),
            inherit_env: values.inherit_env.value,
            user: text(&values.user),
            group: text(&values.group),
            stop_signal: values.stop_signal.value,
            stop_timeout: values.stop_timeout.value,
        })
    }

    /// A name is looked up in the `PATH` that the application will have, a path in its directory.
    fn program(&self, name: &str, directory: &Path, values: &option::Upstream) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        if name.contains('/') {
            return Some(super::clean(&directory.join(name))).filter(is_program);
        }
        let inherited = self.around.path.filter(|_| values.inherit_env.value);
        let path = values.env.value.get("PATH").map(Secret::reveal).or(inherited);
        std::env::split_paths(path.unwrap_or(NO_PATH))
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(name))
            .find(is_program)
    }

    /// Keys that say how to start it where there is nothing to start.
    fn nothing_to_start(&mut self, values: &option::Upstream) {
        let usual = option::Upstream::defaults();
        let option::Upstream {
            processes, shared, directory, env, inherit_env, user, group, ..
        } = values;
        for (name, is_usual, origin) in [
            ("processes", processes.value == usual.processes.value, processes.origin),
            ("shared", shared.value == usual.shared.value, shared.origin),
            ("directory", directory.value.is_none(), directory.origin),
            ("env", env.value.is_empty(), env.origin),
            ("inherit_env", inherit_env.value == usual.inherit_env.value, inherit_env.origin),
            ("user", user.value.is_none(), user.origin),
            ("group", group.value.is_none(), group.origin),
            (
                "stop_signal",
                values.stop_signal.value == usual.stop_signal.value,
                values.stop_signal.origin,
            ),
            (
                "stop_timeout",
                values.stop_timeout.value == usual.stop_timeout.value,
                values.stop_timeout.origin,
            ),
        ] {
            if !is_usual {
                let problem = "only an application that is started here has it; set `spawn`, or \
                    remove this key";
                self.report("upstream", name, origin, problem.into());
            }
        }
    }
}
