//! A script beside the test, asked step by step: a browser or a terminal that the test drives.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::layers::root;

/// A running script; it says itself what may be asked for.
pub struct Script {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Script {
    /// Runs a script of this folder.
    pub fn start(file: &str, arguments: &[&str]) -> Script {
        let mut process = Command::new("/usr/bin/python3")
            .arg(root().join("tests/it/dashboard").join(file))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().unwrap());
        Script { process, to, from }
    }

    /// What a method of the script gives.
    pub fn ask(&mut self, what: Value) -> Value {
        let to = self.to.as_mut().expect("a pipe");
        writeln!(to, "{what}").expect("the script listens");
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the script answers");
        let answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{what}: {line}"));
        assert!(
            answer.get("error").is_none(),
            "{what}: {}",
            answer["error"].as_str().unwrap_or("")
        );
        answer["value"].clone()
    }

    /// What a script evaluates to.
    pub fn value(&mut self, script: &str) -> Value {
        self.ask(json!(["value", script]))
    }

    /// Waits until a script evaluates to something true.
    pub fn until(&mut self, script: &str) -> Value {
        self.ask(json!(["until", script]))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It ends what it has started when its standard input does.
        self.to.take();
        let _ = self.process.wait();
    }
}
