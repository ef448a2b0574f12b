//! Which processes are watched, by number and name.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokamak_observe::processes;

use crate::Error;

/// Programs by process number: those that listen at the address, those that were named, and the
/// children of all.
pub fn find(
    address: SocketAddr,
    pids: &[u32],
    units: &[String],
) -> Result<BTreeMap<u32, String>, Error> {
    let mut named = pids.to_vec();
    for unit in units {
        let found = processes::of_unit(unit);
        named.extend(found.map_err(|why| Error(format!("--unit {unit}: {why}")))?);
    }
    let all = processes::all();
    if let Some(pid) = pids.iter().find(|pid| !all.contains_key(pid)) {
        return Err(Error(format!("--pid {pid}: there is no such process")));
    }
    let found = processes::server(address, named);
    if found.is_empty() {
        return Err(Error(format!(
            "no process that this user may see listens on port {}: run as root, or name the \
             server by --pid or --unit",
            address.port()
        )));
    }
    let name = |pid| Some((pid, all.get(&pid)?.name.clone()));
    Ok(found.into_iter().filter_map(name).collect())
}
