//! `/dashboard.json`: what the dashboard and `tokamak top` show, as one JSON document. Its metrics
//! are the samples of `/metrics`, so both show the same figures. They count from the start of the
//! front; who shows rates takes the difference of two documents.

use serde_json::{Map, Value, json};
use tokamak_config::Site;
use tokamak_cost::Phase;
use tokamak_metrics::{BOUNDS, Kind, Row, Samples, Value as Sample};

use crate::request_summary::RequestSummary;
use crate::slowest::{FLOOR, WINDOW};

/// Single requests that are shown.
#[derive(Default)]
pub struct Lists {
    /// The slowest of late.
    pub slowest: Vec<RequestSummary>,
    /// The last ones that were answered with an error.
    pub errors: Vec<RequestSummary>,
}

/// The document; `status` is the supervisor's report as JSON, if it has answered.
pub fn document(
    samples: &Samples,
    lists: &Lists,
    sites: &[Site],
    status: Option<&str>,
    began: u64,
    now: u64,
) -> String {
    let rows = Row::ALL.iter().map(|row| {
        let ending = if row.kind() == Kind::Counter { "_total" } else { "" };
        (format!("{}{ending}", row.name()), family(samples, *row))
    });
    let phases =
        Phase::ALL.iter().map(|phase| json!({"name": phase.name(), "meaning": phase.meaning()}));
    let request = |one: &RequestSummary| {
        json!({
            "site": sites.get(one.site).map(|site| &site.name),
            "path": one.path,
            "status": one.status,
            "seconds": seconds(one.took),
            "phase": one.phase.name(),
            "ago": seconds(now.saturating_sub(one.at)),
        })
    };
    let requests = |all: &[RequestSummary]| all.iter().map(request).collect::<Vec<_>>();
    let document = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "front_pid": std::process::id(),
        // Counters of another front do not go on from those of this one. In a container both may
        // have the same process id.
        "began": seconds(began),
        "at": seconds(now),
        // For so long the front has counted.
        "seconds": seconds(now.saturating_sub(began)),
        "bounds": BOUNDS.map(|microseconds| microseconds as f64 / 1e6),
        "phases": phases.collect::<Vec<_>>(),
        "metrics": rows.collect::<Map<_, _>>(),
        "slowest": {
            "window": seconds(WINDOW),
            "floor": seconds(FLOOR),
            "urls": requests(&lists.slowest),
        },
        "errors": requests(&lists.errors),
        "status": status.and_then(|status| serde_json::from_str::<Value>(status).ok()),
    });
    document.to_string()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// All samples of a row.
fn family(samples: &Samples, row: Row) -> Value {
    let one = |(labels, value): (&[String], &Sample)| {
        let labels = row.labels().iter().zip(labels).filter(|(_, value)| !value.is_empty());
        let labels: Map<_, _> =
            labels.map(|(&name, value)| (name.to_owned(), Value::from(&value[..]))).collect();
        match value {
            Sample::Number(number) => json!({"labels": labels, "value": number}),
            Sample::Times(reading) => json!({
                "labels": labels,
                // Each counts its own times alone; the last one has no bound.
                "buckets": reading.buckets,
                "sum": reading.sum_in(row),
            }),
        }
    };
    samples.of(row).map(one).collect()
}

#[cfg(test)]
mod tests {
    use tokamak_metrics::Reading;

    use super::*;

    #[test]
    fn has_the_figures_of_the_metrics() {
        let mut samples = Samples::default();
        samples.add(Row::Requests, &["a\"</script>", "", "2xx"], 7.0);
        let mut reading = Reading { sum: 1_500_000_000, ..Reading::default() };
        reading.buckets[3] = 2;
        samples.add_times(Row::Duration, &["a", ""], reading);
        let slow = RequestSummary {
            site: 9,
            path: "/\u{9b}2J<b>".into(),
            took: 2_000_000_000,
            at: 3_000_000_000,
            status: 200,
            phase: Phase::Php,
        };
        let lists = Lists { slowest: vec![slow], errors: Vec::new() };
        let text = document(&samples, &lists, &[], Some("{\"pid\":5}"), 500_000_000, 4_500_000_000);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read["metrics"]["tokamak_requests_total"],
            json!([{"labels": {"site": "a\"</script>", "status": "2xx"}, "value": 7.0}])
        );
        let times = &read["metrics"]["tokamak_request_duration_seconds"][0];
        assert_eq!((&times["buckets"][3], &times["sum"]), (&json!(2), &json!(1.5)));
        assert_eq!(times["buckets"].as_array().unwrap().len(), BOUNDS.len() + 1);
        assert_eq!(
            read["slowest"]["urls"],
            json!([{"site": null, "path": "/\u{9b}2J<b>", "status": 200, "seconds": 2.0,
                "phase": "php", "ago": 1.5}])
        );
        assert_eq!((&read["status"]["pid"], &read["at"]), (&json!(5), &json!(4.5)));
        assert_eq!((&read["began"], &read["seconds"]), (&json!(0.5), &json!(4.0)));
        let silent = document(&samples, &Lists::default(), &[], None, 0, 0);
        assert_eq!(serde_json::from_str::<Value>(&silent).unwrap()["status"], Value::Null);
    }
}
