//! The file for pprof, read by programs that we did not write.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;

/// Fields of a protobuf message by number, read by the rules of its format in Python.
const DECODER: &str = r#"
import gzip, sys
def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]; at += 1
        value |= (byte & 127) << shift; shift += 7
        if byte < 128: return value, at
def fields(data):
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0: value, at = varint(data, at)
        else:
            assert key & 7 == 2, key
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found
def packed(data):
    values, at = [], 0
    while at < len(data):
        value, at = varint(data, at); values.append(value)
    return values
one = lambda message, number: message.get(number, [0])[0]
profile = fields(gzip.open(sys.argv[1]).read())
text = [string.decode() for string in profile[6]]
functions = {one(f, 1): f for f in map(fields, profile[5])}
locations = {one(l, 1): one(fields(one(l, 4)), 1) for l in map(fields, profile[4])}
types = [text[one(fields(t), 1)] + '/' + text[one(fields(t), 2)] for t in profile[1]]
print('types', *types, text[one(profile, 14)])
for sample in map(fields, profile[2]):
    stack = [text[one(functions[locations[id]], 2)] for id in packed(one(sample, 1))]
    tags = {text[one(t, 1)]: text[one(t, 2)] for t in map(fields, sample[3])}
    print('sample', *packed(one(sample, 2)), tags['url'], '<'.join(stack))
"#;

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn taken(folder: &Path) -> String {
    let server = started(Kind::Classic);
    let file = folder.join("profile.pb.gz");
    let words = ["--for", "2s", "--rate", "299", "--cpu", "--pprof", file.to_str().unwrap()];
    profile_of(&server, "/hot.php?wait", &words);
    file.to_str().unwrap().to_owned()
}

#[test]
fn both_times_and_the_tags_of_each_stack_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(Command::new("python3").args(["-c", DECODER, &taken(folder.path())]));
    assert!(
        text.starts_with("types samples/count wall/nanoseconds cpu/nanoseconds cpu\n"),
        "{text}"
    );
    let mut times: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("sample ")) {
        let columns: Vec<_> = line.splitn(5, ' ').collect();
        assert_eq!(columns[3], "/hot.php");
        let innermost = columns[4].split('<').next().unwrap();
        let sum = times.entry(innermost).or_default();
        (0..3).for_each(|n| sum[n] += columns[n].parse::<u64>().unwrap());
    }
    let (spends, waits) = (times["spend_most"], times["usleep"]);
    assert!(spends[0] > 50 && waits[0] > 50, "{times:?}");
    assert!(waits[2] < waits[1] / 5 && spends[2] > spends[1] / 2, "{times:?}");
    let period = 1_000_000_000 / 299;
    assert!(times.values().all(|[count, wall, _]| count * period == *wall), "{times:?}");
}

/// Where Go is installed, its own reader is asked, too.
#[test]
fn go_tool_pprof_reads_it() {
    let has_go = Command::new("go").arg("version").output().is_ok_and(|run| run.status.success());
    if !has_go {
        return eprintln!("go is not installed: what it reads is not tested");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = taken(folder.path());
    let go = |words: &[&str]| {
        let temporary = ("PPROF_TMPDIR", folder.path());
        output(Command::new("go").args(["tool", "pprof"]).args(words).arg(&file).envs([temporary]))
    };
    let top = go(&["-top"]);
    assert!(top.contains("Type: cpu") && top.contains("  spend_most"), "{top}");
    let wall = go(&["-top", "-sample_index=wall", "-focus=usleep"]);
    assert!(wall.contains("Type: wall") && wall.contains("  wait_a_while"), "{wall}");
    let tags = go(&["-tags"]);
    assert!(tags.contains("/hot.php") && tags.contains("worker: Total"), "{tags}");
}
