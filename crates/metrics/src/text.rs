//! The text of metrics: Prometheus' own format (0.0.4), and OpenMetrics 1.0.

use std::fmt::Write;

use crate::{BOUNDS, Exemplar, Kind, Reading, Row, Samples, Value};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.
    OpenMetrics,
}

impl Format {
    /// The format for a client that accepts these media types: OpenMetrics if it is named and not
    /// refused. A scraper that names both prefers it, as Prometheus does.
    pub fn accepted(accept: &str) -> Format {
        let is_open = accept.split(',').any(|range| {
            let mut words = range.split(';').map(str::trim);
            words.next() == Some("application/openmetrics-text")
                && words.all(|word| {
                    let weight = word.strip_prefix("q=").map(str::parse);
                    weight.is_none_or(|weight: Result<f64, _>| weight.is_ok_and(|it| it > 0.0))
                })
        });
        if is_open { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The text of these samples. Each row has its head even if there is no sample of it.
    pub fn write(self, samples: &Samples) -> String {
        let mut text = String::new();
        for &row in Row::ALL {
            self.write_head(row, &mut text);
            let bounds = match row.kind() {
                Kind::Histogram => bounds(row),
                Kind::Counter | Kind::Gauge => Vec::new(),
            };
            for (labels, value) in samples.of(row) {
                let labels = pairs(row, labels);
                match value {
                    Value::Number(number) => {
                        let ending = if row.kind() == Kind::Counter { "_total" } else { "" };
                        write_sample(&mut text, row, ending, &labels, *number);
                    }
                    Value::Times(reading) => {
                        let is_open = self == Format::OpenMetrics;
                        write_times(&mut text, row, &labels, &bounds, reading, is_open);
                    }
                }
            }
        }
        if self == Format::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    /// OpenMetrics names the family of a counter without its ending, and knows units.
    fn write_head(self, row: Row, text: &mut String) {
        let is_open = self == Format::OpenMetrics;
        let ending = if row.kind() == Kind::Counter && !is_open { "_total" } else { "" };
        let (name, word, help) = (row.name(), row.kind().word(), row.help());
        let _ = writeln!(text, "# HELP {name}{ending} {help}.");
        let _ = writeln!(text, "# TYPE {name}{ending} {word}");
        if is_open && !row.unit().is_empty() {
            let _ = writeln!(text, "# UNIT {name} {}", row.unit());
        }
    }
}

/// The labels of a sample as `NAME="VALUE",…`, made once for all lines of a histogram.
fn pairs(row: Row, values: &[String]) -> String {
    let mut text = String::new();
    // One without a value is the same as none, in both formats.
    for (name, value) in row.labels().iter().zip(values).filter(|(_, value)| !value.is_empty()) {
        let separator = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{separator}{name}=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    text
}

/// The bounds of the buckets in the unit of this row.
fn bounds(row: Row) -> Vec<String> {
    let whole = row.whole();
    let finite = BOUNDS.iter().map(|bound| (*bound as f64 / whole).to_string());
    finite.chain(["+Inf".to_owned()]).collect()
}

fn write_sample(text: &mut String, row: Row, ending: &str, labels: &str, number: f64) {
    let name = row.name();
    let _ = match labels {
        "" => writeln!(text, "{name}{ending} {number}"),
        labels => writeln!(text, "{name}{ending}{{{labels}}} {number}"),
    };
}

/// Each bucket counts what is in those before it, too. Only OpenMetrics has exemplars.
fn write_times(
    text: &mut String,
    row: Row,
    labels: &str,
    bounds: &[String],
    reading: &Reading,
    is_open: bool,
) {
    let separator = if labels.is_empty() { "" } else { "," };
    let begin = format!("{}_bucket{{{labels}{separator}le=\"", row.name());
    let mut count = 0_u64;
    for ((bucket, bound), exemplar) in reading.buckets.iter().zip(bounds).zip(&reading.exemplars) {
        count = count.saturating_add(*bucket);
        let _ = write!(text, "{begin}{bound}\"}} {count}");
        if let Some(exemplar) = exemplar.filter(|_| is_open) {
            let Exemplar { trace, span, nanoseconds, at } = exemplar;
            let (value, at) = (nanoseconds as f64 / 1e9, at as f64 / 1e9);
            let labels = format!("trace_id=\"{trace:032x}\",span_id=\"{span:016x}\"");
            let _ = write!(text, " # {{{labels}}} {value} {at:.3}");
        }
        text.push('\n');
    }
    write_sample(text, row, "_sum", labels, reading.sum_in(row));
    write_sample(text, row, "_count", labels, count as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    fn samples() -> Samples {
        let mut samples = Samples::default();
        samples.add(Row::Requests, &["a\\b\"c\nd", "", "2xx"], 12_345_678_901.0);
        let mut reading = Reading { sum: 3_500_000_000, ..Reading::default() };
        reading.buckets[0] = 2;
        reading.buckets[22] = 1;
        samples.add_times(Row::Duration, &["a", "/b"], reading);
        samples
    }

    /// The lines about one metric.
    fn about(text: &str, name: &str) -> Vec<String> {
        text.lines().filter(|line| line.contains(name)).map(str::to_owned).collect()
    }

    #[test]
    fn a_counter_in_both_formats() {
        let sample = r#"tokamak_requests_total{site="a\\b\"c\nd",status="2xx"} 12345678901"#;
        let text = Format::Prometheus.write(&samples());
        let lines = about(&text, "tokamak_requests");
        assert!(lines[0].starts_with("# HELP tokamak_requests_total "), "{lines:?}");
        assert_eq!(lines[1..], ["# TYPE tokamak_requests_total counter", sample]);
        assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
        let text = Format::OpenMetrics.write(&samples());
        let lines = about(&text, "tokamak_requests");
        assert!(lines[0].starts_with("# HELP tokamak_requests "), "{lines:?}");
        assert_eq!(lines[1..], ["# TYPE tokamak_requests counter", sample]);
        assert!(text.ends_with("\n# EOF\n"));
        assert!(text.contains("# UNIT tokamak_cache_bytes bytes\n"));
    }

    #[test]
    fn buckets_add_up() {
        let text = Format::OpenMetrics.write(&samples());
        let lines = about(&text, "tokamak_request_duration_seconds");
        let name = "tokamak_request_duration_seconds";
        assert_eq!(lines.len(), 3 + 23 + 2);
        assert_eq!(lines[3], format!("{name}_bucket{{site=\"a\",route=\"/b\",le=\"0.000008\"}} 2"));
        assert_eq!(
            lines[24],
            format!("{name}_bucket{{site=\"a\",route=\"/b\",le=\"16.777216\"}} 2")
        );
        assert_eq!(lines[25], format!("{name}_bucket{{site=\"a\",route=\"/b\",le=\"+Inf\"}} 3"));
        assert_eq!(lines[26], format!("{name}_sum{{site=\"a\",route=\"/b\"}} 3.5"));
        assert_eq!(lines[27], format!("{name}_count{{site=\"a\",route=\"/b\"}} 3"));
    }

    #[test]
    fn numbers_that_are_no_times_have_the_same_bounds() {
        let histogram = Histogram::default();
        [9, 8_000_000].iter().for_each(|pages| histogram.observe(pages * 1000));
        let mut reading = Reading::default();
        histogram.read(&mut reading);
        let mut samples = Samples::default();
        samples.add_times(Row::RollBackPages, &["a"], reading);
        let text = Format::Prometheus.write(&samples);
        for line in [
            r#"_bucket{site="a",le="8"} 0"#,
            r#"_bucket{site="a",le="16"} 1"#,
            r#"_bucket{site="a",le="8388608"} 2"#,
            r#"_sum{site="a"} 8000009"#,
        ] {
            assert!(text.contains(&format!("tokamak_roll_back_pages{line}\n")), "{line}");
        }
    }

    #[test]
    fn only_openmetrics_has_exemplars() {
        let mut reading = Reading { sum: 5_000, ..Reading::default() };
        reading.buckets[0] = 1;
        reading.exemplars[0] =
            Some(Exemplar { trace: 0xa, span: 0xb, nanoseconds: 5_000, at: 1_500_000_000 });
        let mut samples = Samples::default();
        samples.add_times(Row::Duration, &["a", ""], reading);
        let expected = "le=\"0.000008\"} 1 # {trace_id=\"0000000000000000000000000000000a\",\
                        span_id=\"000000000000000b\"} 0.000005 1.500\n";
        assert!(Format::OpenMetrics.write(&samples).contains(expected));
        assert!(!Format::Prometheus.write(&samples).contains("trace_id"));
    }

    #[test]
    fn the_format_is_what_the_client_accepts() {
        let open = "application/openmetrics-text";
        for (accept, format) in [
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format::Prometheus),
            (open, Format::OpenMetrics),
            (
                "application/openmetrics-text; version=1.0.0; q=0.75,text/plain;version=0.0.4;\
                    q=0.5,*/*;q=0.1",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text;q=0, text/plain", Format::Prometheus),
            ("application/openmetrics-text;q=x", Format::Prometheus),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }
}
