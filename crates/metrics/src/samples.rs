//! What was counted, by row and labels.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use crate::{Kind, Reading, Row};

/// One number, or one histogram.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or gauge.
    Number(f64),
    /// Of a histogram.
    Times(Box<Reading>),
}

/// Numbers by row and labels, in the order of the table and of their labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(BTreeMap<Row, BTreeMap<Vec<String>, Value>>);

/// A line does not say what [`Samples::to_lines`] writes.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no metric: {:?}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl Samples {
    /// Adds a number of this row with these labels; numbers of the same labels add up.
    ///
    /// # Panics
    /// If the row has another number of labels, or is a histogram.
    pub fn add(&mut self, row: Row, labels: &[&str], number: f64) {
        assert!(row.kind() != Kind::Histogram, "{} has times", row.name());
        match self.entry(row, labels).or_insert(Value::Number(0.0)) {
            Value::Number(sum) => *sum += number,
            Value::Times(_) => unreachable!("a row has values of one kind"),
        }
    }

    /// Adds times.
    ///
    /// # Panics
    /// If the row has another number of labels, or is no histogram.
    pub fn add_times(&mut self, row: Row, labels: &[&str], reading: Reading) {
        assert!(row.kind() == Kind::Histogram, "{} has no times", row.name());
        let value = Value::Times(Box::new(reading));
        *self.entry(row, labels).or_insert(Value::Number(0.0)) = value;
    }

    /// The values of one row.
    pub fn of(&self, row: Row) -> impl Iterator<Item = (&[String], &Value)> {
        self.0.get(&row).into_iter().flatten().map(|(labels, value)| (&labels[..], value))
    }

    /// All as lines, `NAME TAB NUMBER TAB LABEL …`; a histogram has its sum and its buckets in
    /// place of the number, with spaces between them. So another process's samples come to the one
    /// that asks for them.
    pub fn to_lines(&self) -> String {
        let mut lines = String::new();
        for (row, values) in &self.0 {
            for (labels, value) in values {
                let _ = write!(lines, "{}\t", row.name());
                let _ = match value {
                    Value::Number(number) => write!(lines, "{number}"),
                    Value::Times(reading) => {
                        let mut buckets = reading.buckets.iter();
                        write!(lines, "{}", reading.sum)
                            .and_then(|()| buckets.try_for_each(|it| write!(lines, " {it}")))
                    }
                };
                for label in labels {
                    let _ = write!(lines, "\t{}", label.escape_default());
                }
                lines.push('\n');
            }
        }
        lines
    }

    /// Adds what [`Samples::to_lines`] of another process has written.
    ///
    /// # Errors
    /// Fails with the first line that is malformed; what stood before it has been added.
    pub fn add_lines(&mut self, lines: &str) -> Result<(), Malformed> {
        for line in lines.lines() {
            let malformed = || Malformed(line.to_owned());
            let mut words = line.split('\t');
            let (Some(name), Some(number)) = (words.next(), words.next()) else {
                return Err(malformed());
            };
            let row = Row::ALL.iter().find(|row| row.name() == name).ok_or_else(malformed)?;
            let labels: Option<Vec<String>> = words.map(unescaped).collect();
            let labels =
                labels.filter(|it| it.len() == row.labels().len()).ok_or_else(malformed)?;
            let labels: Vec<&str> = labels.iter().map(|label| &label[..]).collect();
            if row.kind() == Kind::Histogram {
                self.add_times(*row, &labels, reading(number).ok_or_else(malformed)?);
            } else {
                self.add(*row, &labels, number.parse().map_err(|_| malformed())?);
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        row: Row,
        labels: &[&str],
    ) -> std::collections::btree_map::Entry<'_, Vec<String>, Value> {
        assert_eq!(labels.len(), row.labels().len(), "labels of {}", row.name());
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.0.entry(row).or_default().entry(labels)
    }
}

/// A histogram's sum and its buckets.
fn reading(text: &str) -> Option<Reading> {
    let mut numbers = text.split(' ').map(|number| number.parse().ok());
    let mut reading = Reading { sum: numbers.next()??, ..Reading::default() };
    for bucket in &mut reading.buckets {
        *bucket = numbers.next()??;
    }
    numbers.next().is_none().then_some(reading)
}

/// What [`str::escape_default`] was given.
fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match rest.next()? {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'u' => {
                let digits: String = rest.by_ref().take_while(|digit| *digit != '}').collect();
                char::from_u32(u32::from_str_radix(digits.strip_prefix('{')?, 16).ok()?)?
            }
            quoted @ ('\\' | '"' | '\'') => quoted,
            _ => return None,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_bring_all_numbers_across() {
        let mut samples = Samples::default();
        samples.add(Row::Requests, &["a\tb\n\"ä\\ '", "", "2xx"], 7.0);
        samples.add(Row::Requests, &["", "", "2xx"], 0.5);
        samples.add(Row::Connections, &[], 3.0);
        samples.add(Row::Connections, &[], 4.0);
        let buckets = std::array::from_fn(|nth| nth as u64);
        let reading = Reading { buckets, sum: u64::MAX, ..Reading::default() };
        samples.add_times(Row::RollBack, &["a"], reading);
        let mut others = Samples::default();
        others.add_lines(&samples.to_lines()).unwrap();
        assert_eq!(others, samples);
        assert_eq!(others.of(Row::Connections).next().unwrap().1, &Value::Number(7.0));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "tokamak_connections",
            "tokamak_connections\tmany",
            "tokamak_connections\t1\tlabel",
            "tokamak_nothing\t1",
            "tokamak_roll_back_seconds\t1\tsite",
            "tokamak_roll_back_seconds\t1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\tsite",
            "tokamak_response_body_bytes\t1\t\\x",
            "tokamak_response_body_bytes\t1\t\\u{110000}",
        ] {
            let result = Samples::default().add_lines(&format!("{line}\n"));
            assert_eq!(result, Err(Malformed(line.to_owned())));
        }
    }
}
