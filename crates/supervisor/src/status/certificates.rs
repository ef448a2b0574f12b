//! The certificates that the server gets by itself, as status and metrics show them.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Serialize;
use tokamak_metrics::{Row, Samples};

use super::{Age, row, write_table};
use crate::acme::NameStatus;

/// A name for which the server gets certificates.
#[derive(Debug, Serialize)]
pub struct CertificateReport {
    /// The name.
    pub name: String,
    /// When the next one is ordered, in seconds since 1970.
    pub next: u64,
    /// Why the last try failed, if it did.
    pub failure: Option<String>,
}

/// All of them.
pub fn certificates(names: &BTreeMap<String, NameStatus>) -> Vec<CertificateReport> {
    let report = |(name, status): (&String, &NameStatus)| CertificateReport {
        name: name.clone(),
        next: status.next,
        failure: Some(status.failure.clone()).filter(|failure| !failure.is_empty()),
    };
    names.iter().map(report).collect()
}

/// Adds their metrics.
pub fn add_certificates(names: &BTreeMap<String, NameStatus>, samples: &mut Samples) {
    for (name, status) in names {
        samples.add(Row::CertificateOrder, &[name], status.next as f64);
        let is_failing = !status.failure.is_empty();
        samples.add(Row::CertificateFailing, &[name], f64::from(u8::from(is_failing)));
    }
}

/// Writes the table for people, who read it at this time.
pub(super) fn write_certificates(
    certificates: &[CertificateReport],
    clock: u64,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if certificates.is_empty() {
        return Ok(());
    }
    let mut table = vec![row(["CERTIFICATE", "NEXT ORDER"])];
    for CertificateReport { name, next, .. } in certificates {
        table.push(vec![name.clone(), format!("in {}", Age(next.saturating_sub(clock)))]);
    }
    f.write_char('\n')?;
    write_table(f, &table)?;
    for CertificateReport { name, failure, .. } in certificates {
        if let Some(failure) = failure {
            // An authority has chosen the words.
            writeln!(f, "\n{name}: {}", failure.escape_debug())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Shown(Vec<CertificateReport>);

    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write_certificates(&self.0, 1000, f)
        }
    }

    #[test]
    fn what_is_next_and_what_was_wrong() {
        let status = |next, failure: &str| NameStatus { next, failure: failure.into() };
        let names = BTreeMap::from([
            ("a.example".to_owned(), status(1000 + 3 * 86_400, "")),
            ("bb.example".to_owned(), status(1060, "no\nsuch name")),
        ]);
        let shown = Shown(certificates(&names)).to_string();
        assert_eq!(
            shown,
            "\nCERTIFICATE  NEXT ORDER\na.example    in 3 d\nbb.example   in 1 min\n\n\
             bb.example: no\\nsuch name\n"
        );
        assert_eq!(Shown(Vec::new()).to_string(), "");
        let mut samples = Samples::default();
        add_certificates(&names, &mut samples);
        let lines = samples.to_lines();
        for line in [
            "certificate_order_seconds\t1060\tbb.example",
            "certificate_failing\t0\ta.example",
            "certificate_failing\t1\tbb.example",
        ] {
            assert!(lines.contains(line), "{line} in {lines}");
        }
    }
}
