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
            access: self.server_log(log, true),
            error: error.map(|path| self.log_file(("log", "error"), path, log.error.origin)),
        }
    }

    /// The access log of sites that have none of their own. What is wrong with it is reported only
    /// if `is_checked`, since each site looks at it.
    fn server_log(&mut self, log: &option::Log, is_checked: bool) -> Option<AccessLog> {
        let Off::Is(path) = &log.access.value else { return None };
        let path = match path {
            path if path.as_os_str() == "-" => path.clone(),
            path if is_checked => self.log_file(("log", "access"), path, log.access.origin),
            path => self.absolute(path, log.access.origin),
        };
        Some(AccessLog { path, format: log.access_format.value })
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
            return self.server_log(log, false);
        };
        let Off::Is(path) = own else { return None };
        let format = match site.access_format.value {
            Auto::Is(format) => format,
            Auto::Word => log.access_format.value,
        };
        let path = match path.as_os_str() == "-" {
            true => path.clone(),
            false => self.log_file(("site", "access_log"), path, *origin),
        };
        Some(AccessLog { path, format })
    }

    /// Reports sites that write to the log of another one in another format: no program could read
    /// such a file.
    pub(super) fn one_format_each(&mut self, sites: &[Site]) {
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

    fn log_file(&mut self, (section, name): (&str, &str), path: &Path, origin: Origin) -> PathBuf {
        let path = self.absolute(path, origin);
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
        path
    }
}
