//! What the machine knows of names by itself: `/etc/hosts`, and the name servers of `/etc/resolv.conf`. Read anew for each resolution,
//! since either may change at any time and nobody tells us.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The port of name servers.
const PORT: u16 = 53;

/// Name servers and how to complete names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct System {
    pub servers: Vec<SocketAddr>,
    search: Vec<String>,
    /// Dots in a name that is tried as it is before anything is appended.
    ndots: usize,
}

impl System {
    /// As the machine is configured.
    pub fn read() -> System {
        // Without the file: a name server on this machine, as resolv.conf(5) says.
        System::parse(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
    }

    /// These servers and no other rules.
    pub fn of(servers: &[SocketAddr]) -> System {
        System { servers: servers.to_vec(), search: Vec::new(), ndots: 1 }
    }

    fn parse(text: &str) -> System {
        let mut system = System::of(&[]);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    system.servers.extend(address.map(|address| SocketAddr::new(address, PORT)));
                }
                // The last of either counts.
                Some("search" | "domain") => system.search = words.map(str::to_owned).collect(),
                Some("options") => {
                    let ndots = words.find_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    system.ndots = ndots.unwrap_or(system.ndots);
                }
                _ => {}
            }
        }
        if system.servers.is_empty() {
            system.servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
        }
        system
    }

    /// The complete names that `name` may mean, in their order.
    pub fn meanings(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let mut all: Vec<String> =
            self.search.iter().map(|end| format!("{name}.{}", end.trim_end_matches('.'))).collect();
        let is_whole = name.matches('.').count() >= self.ndots;
        all.insert(if is_whole { 0 } else { all.len() }, name.to_owned());
        all
    }
}

/// The addresses that `/etc/hosts` has for a name.
pub(super) fn hosts(name: &str) -> Vec<IpAddr> {
    hosts_in(&std::fs::read_to_string("/etc/hosts").unwrap_or_default(), name)
}

fn hosts_in(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.trim_end_matches('.');
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|word| word.eq_ignore_ascii_case(name)).then_some(address)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_files_are_read() {
        let text = "# made by hand\nnameserver 192.0.2.1\nsearch a.example. b.example\noptions timeout:1 ndots:2\n\
                    nameserver fe80::1%eth0\nnameserver 2001:db8::1\n";
        let system = System::parse(text);
        assert_eq!(system.servers, ["192.0.2.1:53".parse().unwrap(), "[2001:db8::1]:53".parse().unwrap()]);
        assert_eq!(system.meanings("db"), ["db.a.example", "db.b.example", "db"]);
        assert_eq!(system.meanings("db.x.y"), ["db.x.y", "db.x.y.a.example", "db.x.y.b.example"]);
        assert_eq!(system.meanings("db."), ["db"]);
        assert_eq!(System::parse("").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn hosts_are_found() {
        let text =
            "127.0.0.1 localhost # db\n::1 localhost\n10.0.0.1\tdb.example DB\n10.0.0.2 db\nnonsense db\n";
        let found = |name| hosts_in(text, name).iter().map(IpAddr::to_string).collect::<Vec<_>>();
        assert_eq!(found("db"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(found("localhost"), ["127.0.0.1", "::1"]);
        assert_eq!(found("other"), [""; 0]);
    }
}
