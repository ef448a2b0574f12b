//! The process manager's settings of a pool.

use super::of_pool;
use crate::message::{Level, Message};
use crate::raw::{BACKLOG, Kind, Pool};

/// Checks them, and fills in what is not set.
pub(super) fn manager(pool: &mut Pool, messages: &mut Vec<Message>) -> Result<(), Message> {
    let Some(kind) = pool.pm else {
        return alert(pool, "the process manager is missing (static, dynamic or ondemand)");
    };
    if pool.max_children < 1 {
        return alert(pool, "pm.max_children must be a positive value");
    }
    match kind {
        Kind::Static => Ok(()),
        Kind::Dynamic => dynamic(pool, messages),
        Kind::OnDemand => ondemand(pool, messages),
    }
}

fn alert(pool: &Pool, text: impl std::fmt::Display) -> Result<(), Message> {
    Err(of_pool(pool, Level::Alert, text))
}

fn dynamic(pool: &mut Pool, messages: &mut Vec<Message>) -> Result<(), Message> {
    let (start, min, max) = (pool.start_servers, pool.min_spare_servers, pool.max_spare_servers);
    if min <= 0 {
        return alert(pool, format!("pm.min_spare_servers({min}) must be a positive value"));
    }
    if max <= 0 {
        return alert(pool, format!("pm.max_spare_servers({max}) must be a positive value"));
    }
    let most = pool.max_children;
    if min > most || max > most {
        let text = format!(
            "pm.min_spare_servers({min}) and pm.max_spare_servers({max}) cannot be greater than \
             pm.max_children({most})"
        );
        return alert(pool, text);
    }
    if max < min {
        let text = format!(
            "pm.max_spare_servers({max}) must not be less than pm.min_spare_servers({min})"
        );
        return alert(pool, text);
    }
    if start <= 0 {
        pool.start_servers = min + (max - min) / 2;
        let text = format!("pm.start_servers is not set. It's been set to {}.", pool.start_servers);
        messages.push(of_pool(pool, Level::Notice, text));
    } else if start < min || start > max {
        let text = format!(
            "pm.start_servers({start}) must not be less than pm.min_spare_servers({min}) and not \
             greater than pm.max_spare_servers({max})"
        );
        return alert(pool, text);
    }
    if pool.max_spawn_rate < 1 {
        return alert(pool, "pm.max_spawn_rate must be a positive value");
    }
    Ok(())
}

fn ondemand(pool: &mut Pool, messages: &mut Vec<Message>) -> Result<(), Message> {
    let idle = pool.process_idle_timeout;
    if idle < 1 {
        return alert(pool, format!("pm.process_idle_timeout({idle}s) must be greater than 0s"));
    }
    if pool.listen_backlog < BACKLOG {
        let text = format!(
            "listen.backlog({}) was too low for the ondemand process manager. I updated it for \
             you to {BACKLOG}.",
            pool.listen_backlog
        );
        messages.push(of_pool(pool, Level::Warning, text));
        pool.listen_backlog = BACKLOG;
    }
    (pool.start_servers, pool.min_spare_servers, pool.max_spare_servers) = (0, 0, 0);
    Ok(())
}
