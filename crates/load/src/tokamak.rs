//! What Tokamak says of itself while it is under load: its report for programs, sampled.

use serde_json::Value;

/// The load of a pool, or of an upstream, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolLoad {
    /// The site or the upstream.
    pub name: String,
    /// Workers, or connections, that have a request.
    pub busy: u64,
    /// How many there may be; 0: unknown.
    pub most: u64,
    /// Requests that wait for one.
    pub queue: u64,
}

/// Tokamak at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The supervisor.
    pub pid: u32,
    /// PHP workers by site.
    pub pools: Vec<PoolLoad>,
    /// Connections to FastCGI applications.
    pub upstreams: Vec<PoolLoad>,
}

/// Reads `tokamak status --json`.
pub fn parse(json: &str) -> Option<Status> {
    let report: Value = serde_json::from_str(json).ok()?;
    let number = |of: &Value, key: &str| of[key].as_u64().unwrap_or(0);
    let name = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    let pools = list("pools")
        .iter()
        .map(|pool| PoolLoad {
            name: name(pool, "site"),
            busy: number(pool, "busy"),
            most: number(pool, "max"),
            queue: number(pool, "queue"),
        })
        .collect();
    let upstreams = list("upstreams")
        .iter()
        .map(|upstream| {
            let addresses = upstream["addresses"].as_array().cloned().unwrap_or_default();
            let sum = |key: &str| addresses.iter().map(|one| number(one, key)).sum();
            PoolLoad {
                name: name(upstream, "name"),
                busy: sum("in_use"),
                most: 0,
                queue: sum("waiting"),
            }
        })
        .collect();
    Some(Status { pid: u32::try_from(report["pid"].as_u64()?).ok()?, pools, upstreams })
}

/// The means of many moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Use {
    /// The site or the upstream.
    pub name: String,
    /// Mean of those that have a request.
    pub busy: f64,
    /// How many there may be; 0: unknown.
    pub most: u64,
    /// Mean of the requests that wait.
    pub queue: f64,
}

/// The pool that is used most, over all moments; [`None`] if none is used at all.
pub fn busiest<'a>(moments: impl Iterator<Item = &'a Vec<PoolLoad>>) -> Option<Use> {
    let mut sums: Vec<Use> = Vec::new();
    let mut count = 0.0;
    for moment in moments {
        count += 1.0;
        for load in moment {
            let place = sums.iter().position(|sum| sum.name == load.name).unwrap_or_else(|| {
                sums.push(Use { name: load.name.clone(), ..Use::default() });
                sums.len() - 1
            });
            let sum = &mut sums[place];
            sum.busy += load.busy as f64;
            sum.queue += load.queue as f64;
            sum.most = sum.most.max(load.most);
        }
    }
    let means =
        sums.into_iter().map(|sum| Use { busy: sum.busy / count, queue: sum.queue / count, ..sum });
    means
        .filter(|one| one.busy > 0.0)
        .max_by(|a, b| (a.busy + a.queue).total_cmp(&(b.busy + b.queue)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read() {
        let json = r#"{"pid":7,"pools":[{"site":"a","busy":2,"max":2,"queue":5}],
            "upstreams":[{"name":"u","addresses":[{"in_use":1,"waiting":0},
            {"in_use":2,"waiting":4}]}]}"#;
        let load =
            |name: &str, busy, most, queue| PoolLoad { name: name.into(), busy, most, queue };
        let status = parse(json).unwrap();
        assert_eq!(status.pid, 7);
        assert_eq!(status.pools, [load("a", 2, 2, 5)]);
        assert_eq!(status.upstreams, [load("u", 3, 0, 4)]);
        assert_eq!(parse("no json"), None);
        assert_eq!(parse("{}"), None);
    }

    #[test]
    fn the_busiest_is_the_one_that_requests_wait_for() {
        let load = |name: &str, busy, queue| PoolLoad { name: name.into(), busy, most: 4, queue };
        let moments = [
            vec![load("quiet", 1, 0), load("full", 4, 2)],
            vec![load("quiet", 0, 0), load("full", 4, 6)],
        ];
        let found = busiest(moments.iter()).unwrap();
        assert_eq!(found, Use { name: "full".into(), busy: 4.0, most: 4, queue: 4.0 });
        assert_eq!(busiest([vec![load("idle", 0, 0)]].iter()), None);
    }
}
