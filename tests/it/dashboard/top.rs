//! `tokamak top`: the dashboard in a terminal.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::script::Script;
use super::{document_at_rest, start, sum};
use crate::harness::{Kind, Server, Setup, program};
use crate::operate::command;

fn served() -> (Server, u16) {
    let (server, port) = start(Setup::new(Kind::Classic), "");
    let script = "<?php usleep(30000); echo 'done';";
    std::fs::write(server.places.root().join("wait.php"), script).unwrap();
    server.get("/wait.php?q=1").expect(200);
    // C1 controls as a client may send them.
    server.get("/wait.php/\u{9b}2J").expect(200);
    (server, port)
}

fn in_a_terminal(port: u16) -> Script {
    let program = program();
    let address = format!("127.0.0.1:{port}");
    let arguments = [program.to_str().unwrap(), "top", "--admin", &address];
    Script::start("terminal.py", &arguments)
}

#[test]
fn plain_text_has_the_figures_of_the_document() {
    let (server, port) = served();
    let document = document_at_rest(port, 2.0);
    let run = Command::new(program())
        .args(["top", "--admin", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .output()
        .expect("tokamak runs");
    let shown = String::from_utf8(run.stdout).expect("text");
    assert!(run.status.success(), "{shown}");
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
    let urls = document["slowest"]["urls"].as_array().unwrap();
    for url in urls {
        let path = url["path"].as_str().unwrap().replace('\u{9b}', "?");
        assert!(shown.lines().any(|line| line.ends_with(&path)), "{path} {shown}");
    }
    let limit = sum(&document, "tokamak_workers_limit", &[]);
    assert!(shown.contains(&format!("workers 0 of {limit} busy, 0 requests wait")), "{shown}");
    for worker in document["status"]["pools"][0]["workers"].as_array().unwrap() {
        assert!(shown.contains(&format!("{}  localhost", worker["pid"])), "{worker} {shown}");
    }
    // Without an address it asks the server for it, as `tokamak status` finds it.
    let found = command(&server, &["top", "--once"]);
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(found.contains("workers 0 of"), "{found}");
}

#[test]
fn the_terminal_is_given_back_on_every_way_out() {
    let (_server, port) = served();
    let ways: [&[Value]; 4] = [
        &[json!(["key", "q"])],
        &[json!(["key", "\u{3}"])],
        &[json!(["kill", "SIGTERM"])],
        &[json!(["size", 40, 10]), json!(["key", "s q"])],
    ];
    for way in ways {
        let mut terminal = in_a_terminal(port);
        let shown = terminal.ask(json!(["until", "q quit"]));
        assert!(shown.as_str().unwrap().contains("\u{1b}[?1049h"), "{shown}");
        way.iter().for_each(|step| drop(terminal.ask(step.clone())));
        let end = terminal.ask(json!(["end"]));
        assert_eq!((&end["status"], &end["same"]), (&json!(0), &json!(true)), "{way:?} {end}");
        let said = end["said"].as_str().unwrap();
        assert!(said.contains("\u{1b}[?25h") && said.contains("\u{1b}[?1049l"), "{way:?} {said:?}");
    }
}

#[test]
fn another_size_and_another_order_are_drawn_at_once() {
    let (server, port) = served();
    let mut terminal = in_a_terminal(port);
    terminal.ask(json!(["until", "workers: busy first"]));
    terminal.ask(json!(["key", "s"]));
    terminal.ask(json!(["until", "workers: by requests"]));
    terminal.ask(json!(["size", 20, 8]));
    // The last of eight rows, cut after twenty columns.
    terminal.ask(json!(["until", "\\[8;1H.*q quit  s order  tab\u{1b}"]));
    // All that belongs to a slow URL is there, in two lines.
    terminal.ask(json!(["size", 40, 60]));
    terminal.ask(json!(["until", "\\[60;1H.*q quit  s order  tab site  space pause\u{1b}"]));
    terminal.ask(json!(["until", "STATUS.*SITE.*  URL.*200.*localhost.*  /wait.php.*REQUEST"]));
    terminal.ask(json!(["size", 100, 30]));
    drop(server);
    terminal.ask(json!(["until", "the figures are old: no answer from the admin listener"]));
    terminal.ask(json!(["key", "q"]));
    assert_eq!(terminal.ask(json!(["end"]))["status"], 0);
}

/// A key that comes together with another size is as good as any.
#[test]
fn no_key_is_lost_to_another_size() {
    let (_server, port) = served();
    let mut terminal = in_a_terminal(port);
    terminal.ask(json!(["until", "space pause"]));
    for turn in 0..100 {
        let shown = if turn % 2 == 0 { "space go on \\(paused\\)" } else { "space pause" };
        terminal.ask(json!(["size_and_key", 100 + turn % 2, 30, " "]));
        terminal.ask(json!(["until", shown]));
    }
    terminal.ask(json!(["key", "q"]));
    assert_eq!(terminal.ask(json!(["end"]))["status"], 0);
}

/// The keys have their effects although no new figures come.
#[test]
fn keys_are_answered_while_paused() {
    let (_server, port) = served();
    let mut terminal = in_a_terminal(port);
    terminal.ask(json!(["until", "space pause"]));
    terminal.ask(json!(["key", " "]));
    terminal.ask(json!(["until", "space go on \\(paused\\)"]));
    terminal.ask(json!(["key", "s"]));
    terminal.ask(json!(["until", "workers: by requests.*\\(paused\\)"]));
    terminal.ask(json!(["key", "q"]));
    assert_eq!(terminal.ask(json!(["end"]))["status"], 0);
}

#[test]
fn a_site_is_chosen_by_a_key() {
    let (server, port) = start(Setup::new(Kind::Classic).also("other.example", "php"), "");
    let script = "<?php usleep(30000); echo 'done';";
    std::fs::write(server.places.root().join("wait.php"), script).unwrap();
    server.get("/wait.php?q=1").expect(200);
    let mut terminal = in_a_terminal(port);
    terminal.ask(json!(["until", "/wait.php.*tab site: all"]));
    terminal.ask(json!(["key", "\t"]));
    let shown = terminal.ask(json!(["until", "tab site: localhost"]));
    let shown = shown.as_str().unwrap();
    assert!(shown.contains("/wait.php") && !shown.contains("other.example"), "{shown:?}");
    terminal.ask(json!(["key", "\t"]));
    let shown = terminal.ask(json!(["until", "tab site: other.example"]));
    assert!(!shown.as_str().unwrap().contains("/wait.php"), "{shown:?}");
    // Behind the last one, and before the first one, are all.
    terminal.ask(json!(["key", "\t"]));
    terminal.ask(json!(["until", "/wait.php.*tab site: all"]));
    terminal.ask(json!(["key", "\u{1b}[Z"]));
    terminal.ask(json!(["until", "tab site: other.example"]));
    terminal.ask(json!(["key", "q"]));
    assert_eq!(terminal.ask(json!(["end"]))["status"], 0);
}

/// By the key, and by the signal of another process; then its shell has used the terminal.
#[test]
fn a_stopped_view_gives_the_terminal_back_and_draws_anew() {
    let (_server, port) = served();
    let ways: [Value; 2] = [json!(["key", "\u{1a}"]), json!(["kill", "SIGTSTP"])];
    for stop in ways {
        let mut terminal = in_a_terminal(port);
        terminal.ask(json!(["until", "q quit"]));
        terminal.ask(stop.clone());
        terminal.ask(json!(["until", "\u{1b}\\[\\?25h.*\u{1b}\\[\\?1049l"]));
        assert_eq!(terminal.ask(json!(["stopped"])), true, "{stop}: the settings are the old ones");
        terminal.ask(json!(["kill", "SIGCONT"]));
        terminal.ask(json!(["until", "\u{1b}\\[\\?1049h.*q quit"]));
        terminal.ask(json!(["key", "s"]));
        terminal.ask(json!(["until", "workers: by requests"]));
        terminal.ask(json!(["key", "q"]));
        let end = terminal.ask(json!(["end"]));
        assert_eq!((&end["status"], &end["same"]), (&json!(0), &json!(true)), "{stop} {end}");
    }
}

/// A signal that no process can catch: its shell takes the terminal back itself.
#[test]
fn a_view_that_was_halted_takes_the_terminal_anew() {
    let (_server, port) = served();
    let mut terminal = in_a_terminal(port);
    terminal.ask(json!(["until", "q quit"]));
    terminal.ask(json!(["kill", "SIGSTOP"]));
    terminal.ask(json!(["stopped"]));
    terminal.ask(json!(["cook"]));
    terminal.ask(json!(["kill", "SIGCONT"]));
    terminal.ask(json!(["until", "\u{1b}\\[\\?1049h.*q quit"]));
    // Without the end of a line, which a cooked terminal waits for.
    terminal.ask(json!(["key", "s"]));
    terminal.ask(json!(["until", "workers: by requests"]));
    terminal.ask(json!(["key", "q"]));
    assert_eq!(terminal.ask(json!(["end"]))["status"], 0);
}
