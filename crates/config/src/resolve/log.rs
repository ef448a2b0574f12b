//! Where requests and errors are written.

use std::path::{Path, PathBuf};

use super::Reader;
use crate::model::{AccessLog, Log, Site};
use crate::option;
use crate::origin::{Given, Origin};
use crate::value::{Auto, Off};

impl Reader<'_> {
    pub(super) fn log(&mut self, log: &option::Log) -> Log {
        let error = log.error.value.as_ref();
        Log {
            access: self.server_log(log).inspect(|access| {
                self.check_log("log", "access", &access.path, log.access.origin);
            }),
            error: error.map(|path| {
                let path = self.absolute(path, log.error.origin);
                self.check_log("log", "error", &path, log.error.origin);
                path
            }),
        }
    }

    /// The access log of sites that have none of their own.
    fn server_log(&self, log: &option::Log) -> Option<AccessLog> {
        let Off::Is(path) = &log.access.value else { return None };
        let path = self.log_path(path, log.access.origin);
        Some(AccessLog { path, format: log.access_format.value.clone() })
    }

    /// The whole path of an access log; `-` stays.
    fn log_path(&self, path: &Path, origin: Origin) -> PathBuf {
        if path.as_os_str() == "-" { path.to_owned() } else { self.absolute(path, origin) }
    }

    /// Where the requests of a site are written, if no site around it says otherwise.
    pub(super) fn site_log(&mut self, site: &option::Site) -> Option<AccessLog> {
        let log = &self.raw.log;
        let Given { value: Auto::Is(own), origin } = &site.access_log else {
            if let Auto::Is(_) = site.access_format.value {
                let problem = "is for `access_log` of the site, which is not set; set it, or \
                    `access_format` in `[log]`";
                self.report("site", "access_format", site.access_format.origin, problem.into());
            }
            return self.server_log(log);
        };
        let Off::Is(path) = own else { return None };
        let format = match &site.access_format.value {
            Auto::Is(format) => format.clone(),
            Auto::Word => log.access_format.value.clone(),
        };
        let path = self.log_path(path, *origin);
        self.check_log("site", "access_log", &path, *origin);
        Some(AccessLog { path, format })
    }

    /// Reports sites that write to the log of another one in another format: no program could read
    /// such a file.
    pub(super) fn check_log_formats(&mut self, sites: &[Site]) {
        let raw = self.raw;
        for (index, raw) in raw.sites.iter().enumerate() {
            let Some(own) = sites[index].access_log.as_ref() else { continue };
            let before = sites[..index].iter().filter_map(|site| site.access_log.as_ref());
            if before.clone().any(|log| log.path == own.path && log.format != own.format) {
                let problem = format!(
                    "{} is written in another format by another site; name another file, or set \
                     the same `access_format`",
                    own.path.display()
                );
                let origin = match raw.site.access_log.origin {
                    Origin::Default => raw.origin,
                    origin => origin,
                };
                self.report("site", "access_log", origin, problem);
            }
        }
    }

    /// Reports a file that cannot be made.
    fn check_log(&mut self, section: &str, name: &str, path: &Path, origin: Origin) {
        if path.as_os_str() == "-" {
            return;
        }
        match path.parent() {
            Some(parent) if !path.is_dir() && parent.is_dir() => {}
            Some(parent) if !parent.is_dir() => {
                let problem =
                    format!("the directory {} does not exist; create it", parent.display());
                self.report(section, name, origin, problem);
            }
            _ => self.report(
                section,
                name,
                origin,
                format!("{} is a directory; name a file", path.display()),
            ),
        }
    }
}
