//! What a reload needs beside the generations: log files opened anew, and php-fpm's words.

use std::io;
use std::os::fd::AsFd;

use tokamak_config::Server;
use tokamak_fpm as fpm;

use super::{Supervisor, announce_fpm};
use crate::front::open_log;
use crate::log::{self, Level};

/// Says in php-fpm's words that requests are served with a new configuration.
pub(super) fn reloaded_fpm(old: &Server, new: &Server) {
    let Some(global) = new.fpm.as_ref().map(|fpm| &fpm.global) else { return };
    log::write_as_fpm(global);
    for (nth, (socket, _)) in new.fpm_sockets().enumerate() {
        if !old.fpm_sockets().any(|(other, _)| other.address == socket.address) {
            continue;
        }
        // The number of a descriptor, which only has a meaning there, is the index among the
        // sockets here.
        let message = format_args!("using inherited socket fd={nth}, \"{}\"", socket.address);
        log::fpm(fpm::Level::Notice, message);
    }
    announce_fpm();
}

impl Supervisor {
    /// Opens the log files anew, after a log rotation has moved them away. The workers hold the old
    /// error log, so they are replaced too.
    pub(super) fn reopen(&mut self, now: u64) {
        let server = self.fleet.configured.clone();
        let logs = server.access_logs().into_iter();
        let access = logs.filter_map(|log| log.file()).map(|path| Ok((path, open_log(path)?)));
        let files = (
            server.log.error.as_deref().map(open_log).transpose(),
            access.collect::<io::Result<Vec<_>>>(),
        );
        let (error, access) = match files {
            (Ok(error), Ok(access)) => (error, access),
            (Err(wrong), _) | (_, Err(wrong)) => {
                return log::line(Level::Error, format_args!("logs are not reopened: {wrong}"));
            }
        };
        if let Some(file) = &error
            && let Err(wrong) = log::redirect(file.as_fd())
        {
            return log::line(Level::Error, format_args!("logs are not reopened: {wrong}"));
        }
        for generation in &mut self.fleet.generations {
            generation.reopen_logs(error.as_ref(), &access);
        }
        log::either(
            format_args!("log files are reopened"),
            format_args!("error log file re-opened"),
        );
        if error.is_some() {
            self.fleet.reload_with(&mut self.host, server, None, now);
        }
    }
}
