//! The profile as `go tool pprof` and others read it: a message of `profile.proto`, compressed. Of
//! that format only what we write is declared here.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::profile::{By, Clock, OUTSIDE, Profile};

#[derive(Clone, PartialEq, Message)]
struct Proto {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

/// Says that the functions have names, so that a reader looks for no program.
#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}

/// Texts by number; the first one is empty.
#[derive(Default)]
struct Strings {
    all: Vec<String>,
    numbers: HashMap<String, i64>,
}

impl Strings {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as i64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType { r#type: self.number(name), unit: self.number(unit) }
    }
}

/// The bytes of the file. Both clocks are in it, and this one is shown first; site, URL and worker
/// are tags.
pub fn pprof(profile: &Profile, clock: Clock) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory does not fail.
    let _ = file.write_all(&proto(profile, clock).encode_to_vec());
    file.finish().unwrap_or_default()
}

fn proto(profile: &Profile, clock: Clock) -> Proto {
    let mut strings = Strings::default();
    strings.number("");
    let first = match clock {
        Clock::Wall => "wall",
        Clock::Cpu => "cpu",
    };
    let sample_type = [("samples", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds")]
        .map(|(name, unit)| strings.value_type(name, unit));
    let (location, function) = calls(profile, &mut strings);
    // Numbers begin with 1, and the last one is that of a request without a call.
    let outside = location.len() as u64;
    let sample = profile.samples.iter().map(|sample| {
        let tags = [("site", By::Site), ("url", By::Url), ("worker", By::Worker)];
        let label = tags.map(|(key, by)| Label {
            key: strings.number(key),
            str: strings.number(&sample.root(by)),
        });
        let calls = sample.calls.iter().rev().map(|call| *call as u64 + 1);
        let outside = sample.calls.is_empty().then_some(outside);
        let (wall, cpu) = (profile.nanoseconds(sample.wall), profile.nanoseconds(sample.cpu));
        Sample {
            location_id: calls.chain(outside).collect(),
            value: vec![sample.wall as i64, wall, cpu],
            label: label.to_vec(),
        }
    });
    Proto {
        sample: sample.collect(),
        sample_type: sample_type.to_vec(),
        mapping: vec![Mapping {
            id: 1,
            filename: strings.number("PHP"),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
        }],
        location,
        function,
        duration_nanos: profile.nanoseconds(profile.periods),
        period_type: Some(strings.value_type("wall", "nanoseconds")),
        period: profile.nanoseconds(1),
        comment: vec![strings.number(&profile.to_string())],
        default_sample_type: strings.number(first),
        string_table: strings.all,
    }
}

/// A location and a function for each call, and for a request without one. Which line of a function
/// runs is not known, so each has its first.
fn calls(profile: &Profile, strings: &mut Strings) -> (Vec<Location>, Vec<Function>) {
    let calls = profile.calls.iter().map(|call| (call.label(), &call.file[..], call.line));
    let all = calls.chain([(OUTSIDE.into(), "", 0)]);
    let both = all.zip(1..).map(|((label, file, line), id)| {
        let line = i64::from(line);
        let (name, filename) = (strings.number(&label), strings.number(file));
        let function = Function { id, name, filename, start_line: line };
        (Location { id, mapping_id: 1, line: vec![Line { function_id: id, line }] }, function)
    });
    both.unzip()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::read::{read, tests::TEXT};

    #[test]
    fn samples_have_their_stack_their_times_and_their_tags() {
        let file = pprof(&read("default", TEXT).unwrap(), Clock::Cpu);
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
        let proto = Proto::decode(&bytes[..]).unwrap();
        let text = |number: i64| &proto.string_table[number as usize][..];
        assert_eq!((text(0), text(proto.default_sample_type)), ("", "cpu"));
        assert_eq!((proto.period, proto.duration_nanos), (10_000_000, 120_000_000));
        let function = |id: &u64| text(proto.function[*id as usize - 1].name);
        let stack = |sample: &Sample| sample.location_id.iter().map(function).collect::<Vec<_>>();
        let waits = &proto.sample[1];
        assert_eq!(stack(waits), ["usleep", "App\\{closure:app.php:9}", "/srv/index.php"]);
        assert_eq!(waits.value, [2, 20_000_000, 0]);
        let tags: Vec<_> = waits.label.iter().map(|tag| (text(tag.key), text(tag.str))).collect();
        assert_eq!(tags, [("site", "default"), ("url", "/b"), ("worker", "worker 7")]);
        assert_eq!(stack(&proto.sample[2]), ["(no PHP call)"]);
    }

    #[test]
    fn nothing_is_a_file_too() {
        assert!(pprof(&Profile::default(), Clock::Wall).starts_with(&[0x1f, 0x8b]));
    }
}
