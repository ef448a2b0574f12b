//! What a document says, and what was counted between two of them.

use serde_json::Value;

/// What was counted, of one site or of all together; the cache's is that of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests.
    pub requests: f64,
    /// Of those, answers 5xx.
    pub errors: f64,
    /// Bytes of bodies.
    pub bytes: f64,
    /// From begin to end.
    pub duration: Times,
    /// Of each phase, in order.
    pub phases: Vec<(String, Times)>,
    /// By kind: calls of PHP, and the time that the requests have spent in them that made any.
    pub calls: [(&'static str, f64, Times); 2],
    /// Requests that asked the content cache, and those that it answered.
    pub cache: (f64, f64),
}

/// A histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Each counts its own times alone; the last has no bound.
    pub buckets: Vec<f64>,
    /// Seconds; of a histogram of something else, in its unit.
    pub sum: f64,
}

/// The samples of a metric.
pub fn samples<'a>(document: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    document["metrics"][name].as_array().into_iter().flatten()
}

/// The sum of those samples whose labels have these values.
pub fn sum(document: &Value, name: &str, labels: &[(&str, &str)]) -> f64 {
    let numbers = samples(document, name).filter(|one| fits(one, labels));
    // The standard sum of nothing is -0, and would be shown so.
    numbers.filter_map(|one| one["value"].as_f64()).fold(0.0, |sum, one| sum + one)
}

/// Labels, and that of a site if one is meant.
pub fn with_site<'a>(
    site: Option<&'a str>,
    labels: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    labels.iter().copied().chain(site.map(|site| ("site", site))).collect()
}

/// The names of all sites.
pub fn sites(document: &Value) -> Vec<&str> {
    let named = samples(document, "tokamak_requests_total");
    let mut names: Vec<_> = named.filter_map(|one| one["labels"]["site"].as_str()).collect();
    // A site has a series for each class of status.
    names.dedup();
    names
}

fn fits(sample: &Value, labels: &[(&str, &str)]) -> bool {
    labels.iter().all(|(name, value)| sample["labels"][*name] == *value)
}

/// The samples of a histogram whose labels have these values, together.
pub fn times(document: &Value, name: &str, labels: &[(&str, &str)]) -> Times {
    let mut all = Times::default();
    for one in samples(document, name).filter(|one| fits(one, labels)) {
        let buckets = one["buckets"].as_array().map_or(&[][..], Vec::as_slice);
        all.buckets.resize(all.buckets.len().max(buckets.len()), 0.0);
        for (sum, bucket) in all.buckets.iter_mut().zip(buckets) {
            *sum += bucket.as_f64().unwrap_or(0.0);
        }
        all.sum += one["sum"].as_f64().unwrap_or(0.0);
    }
    all
}

impl Counts {
    /// Since the front's start; of all sites if none is named.
    pub fn of(document: &Value, site: Option<&str>) -> Counts {
        let phases = document["phases"].as_array().into_iter().flatten();
        let names = phases.filter_map(|phase| phase["name"].as_str());
        let phase = |name: &str| {
            let labels = with_site(site, &[("phase", name)]);
            (name.to_owned(), times(document, "tokamak_request_phase_seconds", &labels))
        };
        let called = |kind: &'static str| {
            let labels = with_site(site, &[("kind", kind)]);
            let calls = sum(document, "tokamak_calls_total", &labels);
            (kind, calls, times(document, "tokamak_request_calls_seconds", &labels))
        };
        let cached = |result| sum(document, "tokamak_cache_requests_total", &[("result", result)]);
        let answered = cached("hit") + cached("stale") + cached("coalesced");
        Counts {
            requests: sum(document, "tokamak_requests_total", &with_site(site, &[])),
            errors: sum(document, "tokamak_requests_total", &with_site(site, &[("status", "5xx")])),
            bytes: sum(document, "tokamak_response_body_bytes_total", &with_site(site, &[])),
            duration: times(document, "tokamak_request_duration_seconds", &with_site(site, &[])),
            phases: names.map(phase).collect(),
            calls: ["sql", "http"].map(called),
            cache: (answered + cached("miss") + cached("bypassed"), answered),
        }
    }

    /// What was counted after `early`, which the same front has counted.
    pub fn since(&self, early: &Counts) -> Counts {
        let phases = self.phases.iter().map(|(name, times)| {
            let before = early.phases.iter().find(|(other, _)| other == name);
            (name.clone(), before.map_or(times.clone(), |(_, before)| times.since(before)))
        });
        let mut calls = self.calls.clone();
        for ((_, count, times), (_, count_before, before)) in calls.iter_mut().zip(&early.calls) {
            *count -= count_before;
            *times = times.since(before);
        }
        Counts {
            requests: self.requests - early.requests,
            errors: self.errors - early.errors,
            bytes: self.bytes - early.bytes,
            duration: self.duration.since(&early.duration),
            phases: phases.collect(),
            calls,
            cache: (self.cache.0 - early.cache.0, self.cache.1 - early.cache.1),
        }
    }
}

impl Times {
    fn since(&self, early: &Times) -> Times {
        let before = early.buckets.iter().chain(std::iter::repeat(&0.0));
        let buckets = self.buckets.iter().zip(before).map(|(late, early)| late - early);
        Times { buckets: buckets.collect(), sum: self.sum - early.sum }
    }

    /// How many.
    pub fn count(&self) -> f64 {
        self.buckets.iter().sum()
    }

    /// The time, in seconds, that this share of them does not exceed: as `histogram_quantile` of
    /// Prometheus, linear between the bounds of a bucket.
    pub fn quantile(&self, share: f64, bounds: &[f64]) -> Option<f64> {
        let rank = share * self.count();
        let (mut below, mut low) = (0.0, 0.0);
        for (bucket, bound) in self.buckets.iter().zip(bounds) {
            if *bucket > 0.0 && below + bucket >= rank {
                return Some(low + (bound - low) * (rank - below) / bucket);
            }
            (below, low) = (below + bucket, *bound);
        }
        if self.count() > 0.0 { bounds.last().copied() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_bounds_of_their_bucket() {
        let bounds = [1.0, 2.0, 4.0];
        let times = |buckets: [f64; 4]| Times { buckets: buckets.to_vec(), sum: 0.0 };
        for (buckets, share, expected) in [
            ([0.0, 0.0, 0.0, 0.0], 0.5, None),
            ([4.0, 0.0, 0.0, 0.0], 0.5, Some(0.5)),
            ([1.0, 0.0, 3.0, 0.0], 0.5, Some(2.0 + 2.0 / 3.0)),
            ([0.0, 0.0, 0.0, 1.0], 0.5, Some(4.0)),
            ([0.0, 2.0, 0.0, 0.0], 1.0, Some(2.0)),
        ] {
            assert_eq!(times(buckets).quantile(share, &bounds), expected, "{buckets:?}");
        }
    }

    #[test]
    fn a_document_of_another_kind_has_no_figures() {
        for text in ["null", "[]", "{\"metrics\":{\"tokamak_requests_total\":[{\"value\":\"x\"}]}}"]
        {
            let document: Value = serde_json::from_str(text).unwrap();
            assert_eq!(Counts::of(&document, None).requests, 0.0);
        }
    }
}
