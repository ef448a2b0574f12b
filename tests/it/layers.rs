//! The picture of the crates as a test: who may know whom, what may not stand in any file, how long
//! a file may grow. Reads the manifests and the tracked files; starts nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One crate, what it may use of ours, and what it may never use of others.
struct Rule {
    name: &'static str,
    ours: &'static [&'static str],
    never: &'static [&'static str],
}

/// Crates that bring an event loop or the protocol that runs on one.
const REACTOR: &[&str] = &["tokio", "hyper", "http", "http-body", "http-body-util"];

/// Floor by floor. A crate may use only crates of lower floors, and of those only what its row
/// grants.
const RULES: &[Rule] = &[
    // The worker program links it, so whatever it used would come along.
    Rule {
        name: "cost",
        ours: &[],
        never: &["tokio", "hyper", "http", "libc", "serde", "toml_edit"],
    },
    // Bytes in, bytes out.
    Rule {
        name: "fastcgi",
        ours: &[],
        never: &["tokio", "hyper", "http", "libc", "socket2", "bytes"],
    },
    // The same.
    Rule {
        name: "http1",
        ours: &[],
        never: &["tokio", "hyper", "http", "libc", "socket2", "bytes"],
    },
    // C under a contract of its own, for the worker alone.
    Rule {
        name: "image",
        ours: &[],
        never: &["libc", "tokio", "hyper", "http", "serde", "toml_edit"],
    },
    // Numbers in, text out; what is counted, and when, others know.
    Rule {
        name: "metrics",
        ours: &[],
        never: &["tokio", "hyper", "http", "libc", "serde", "toml_edit"],
    },
    Rule {
        name: "sys",
        ours: &["cost", "metrics"],
        never: &["tokio", "hyper", "http", "serde", "toml_edit"],
    },
    // Text in, text out; of sys it needs the names of users and the time of day.
    Rule {
        name: "fpm",
        ours: &["sys"],
        never: &["tokio", "hyper", "http", "libc", "serde", "toml_edit"],
    },
    // Judges what was typed; touches no socket and no process.
    Rule { name: "config", ours: &["fpm"], never: &["tokio", "hyper", "http", "libc", "socket2"] },
    // Certificates and keys as bytes; who reads them, and for which connections, others know.
    Rule {
        name: "tls",
        ours: &[],
        never: &["tokio", "tokio-rustls", "hyper", "http", "libc", "serde", "toml_edit"],
    },
    // QUIC's packets find their event loop. What is said in its streams is the front's.
    Rule { name: "quic", ours: &["sys"], never: &["hyper", "http", "libc", "serde", "toml_edit"] },
    // HTTP/2 by the C library: bytes in, events out. It knows no sockets and no time.
    Rule { name: "nghttp2", ours: &[], never: REACTOR },
    Rule {
        name: "upstream",
        ours: &["cost", "fastcgi", "http1", "nghttp2", "sys", "tls"],
        never: &["hyper", "http", "toml_edit", "libc"],
    },
    // It judges heads and keeps bodies; who asks, and what time it is, is the front's.
    Rule {
        name: "cache",
        ours: &["metrics"],
        never: &["tokio", "hyper", "toml_edit", "serde", "libc"],
    },
    // Scripts see requests through a trait; who serves them, and how, is the front's.
    Rule { name: "lua", ours: &[], never: &["tokio", "hyper", "http", "toml_edit", "serde"] },
    // Clients of other services; who asks through them, and why, is the front's.
    Rule { name: "outbound", ours: &["http1"], never: &["libc", "toml_edit", "serde"] },
    // Headers of strangers and spans as bytes; whose they are, and who sends them, is the front's.
    Rule { name: "trace", ours: &["cost"], never: &["tokio", "hyper", "http", "libc", "serde"] },
    // Keys and certificates as files; for whom they are made, and when, others know.
    Rule {
        name: "authority",
        ours: &["sys", "tls"],
        never: &["tokio", "hyper", "http", "libc", "serde", "toml_edit"],
    },
    // It speaks to authorities; files, fronts and processes are the supervisor's.
    Rule {
        name: "acme",
        ours: &["config", "outbound", "sys", "tls"],
        never: &["hyper", "libc", "toml_edit"],
    },
    // Passwords as text; when a file of users is read, and which thread verifies, others know.
    Rule {
        name: "auth",
        ours: &[],
        never: &["tokio", "hyper", "http", "libc", "serde", "toml_edit"],
    },
    // A hub without sockets and without a clock: who subscribes, and over what, is the front's.
    Rule {
        name: "mercure",
        ours: &[],
        never: &["tokio", "hyper", "http", "libc", "serde", "toml_edit"],
    },
    // Texts of other servers in, a text of ours out; whether that is good, its tests ask `config`.
    // Whether the hashes of a file of users are known, only `auth` can tell. Only the program
    // `tokamak-import` links it.
    Rule {
        name: "import",
        ours: &["auth", "config"],
        never: &["tokio", "hyper", "http", "libc", "socket2", "serde"],
    },
    // What the kernel shows of processes; whose they are, and why they are looked at, others know.
    // Of sys it needs what `/proc` says.
    Rule { name: "observe", ours: &["sys"], never: &["tokio", "hyper", "http", "libc", "serde"] },
    // Text in, text and bytes out.
    Rule {
        name: "profile",
        ours: &["observe"],
        never: &["tokio", "hyper", "http", "libc", "serde"],
    },
    Rule {
        name: "front",
        ours: &[
            "auth", "cache", "config", "cost", "fastcgi", "fpm", "lua", "mercure", "metrics",
            "nghttp2", "outbound", "profile", "quic", "sys", "tls", "trace", "upstream",
        ],
        never: &["toml_edit", "serde"],
    },
    // It forks, and must not have a runtime to fork.
    Rule {
        name: "supervisor",
        ours: &["auth", "authority", "config", "cost", "fpm", "metrics", "sys", "tls"],
        never: REACTOR,
    },
    // A client of the admin listener: it knows the server only by its document.
    Rule { name: "top", ours: &["observe"], never: &["tokio", "hyper", "http", "libc", "serde"] },
    // It plays the supervisor to one worker, and tells it what the supervisor would.
    Rule { name: "report", ours: &["config", "observe", "supervisor", "sys"], never: REACTOR },
    // A client of any server: it knows Tokamak only as its report for programs shows it.
    // Of sys it needs what `/proc` says.
    Rule { name: "load", ours: &["observe", "sys"], never: &["libc", "toml_edit", "serde"] },
    // It watches servers of any make, so it knows none of ours; of sys it needs how to start a
    // program that ends with it.
    Rule {
        name: "anatomy",
        ours: &["observe", "sys"],
        never: &["tokio", "hyper", "http", "libc", "toml_edit"],
    },
    // It plays the kernel, the clients and the workers to supervisor, gates and queue; nobody links
    // it.
    Rule { name: "simulation", ours: &["config", "supervisor", "sys", "upstream"], never: REACTOR },
    // Settings reach it as messages, requests as records: it knows neither the file nor HTTP.
    Rule {
        name: "php",
        ours: &["cost", "image", "sys"],
        never: &["tokio", "hyper", "http", "toml_edit", "serde"],
    },
];

/// The binary only wires, but never links the PHP worker: it starts it.
const ROOT: &[&str] = &[
    "acme",
    "anatomy",
    "auth",
    "authority",
    "config",
    "cost",
    "fastcgi",
    "fpm",
    "front",
    "import",
    "load",
    "observe",
    "profile",
    "report",
    "supervisor",
    "sys",
    "tls",
    "top",
    "upstream",
];

/// Crates in which `unsafe` may stand; every other one takes the workspace's lints, which forbid
/// it.
const UNSAFE_ROOMS: &[&str] = &["lua", "nghttp2", "php", "sys"];

/// Lines that a source file may have, tests aside: beyond this it has more than one reason to
/// exist.
const LONGEST_FILE: usize = 800;

/// The repository's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Dependencies by section (`dependencies`, `dev-dependencies`, `build-dependencies`) of one
/// manifest.
///
/// Reads the shape that our manifests have, one dependency a line, and refuses another: a table of
/// its own for a dependency would go unseen otherwise.
pub fn dependencies(manifest: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let text =
        std::fs::read_to_string(manifest).unwrap_or_else(|e| panic!("{}: {e}", manifest.display()));
    let mut sections: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_string();
            let nested = section.contains("dependencies.") || section.starts_with("target.");
            assert!(
                !nested,
                "{}: [{section}]: write dependencies as one line each",
                manifest.display()
            );
        } else if section.ends_with("dependencies") && section != "workspace.dependencies" {
            let end = line.find(['.', '=', ' ']).unwrap_or(line.len());
            sections.entry(section.clone()).or_default().insert(line[..end].to_string());
        }
    }
    sections
}

/// Every manifest of the workspace: the root's and those below `crates/`, with the crate's short
/// name.
pub fn manifests() -> Vec<(String, PathBuf)> {
    let mut found = vec![("tokamak".to_string(), root().join("Cargo.toml"))];
    for entry in std::fs::read_dir(root().join("crates")).expect("crates/ is there") {
        let path = entry.expect("a directory entry").path();
        let manifest = path.join("Cargo.toml");
        if manifest.exists() {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            found.push((name, manifest));
        }
    }
    found.sort();
    found
}

fn short(name: &str) -> Option<&str> {
    name.strip_prefix("tokamak-")
}

/// What is wrong with one crate's dependencies, by its rule.
fn breaches(rule: &Rule, sections: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (section, names) in sections {
        for name in names {
            match short(name) {
                Some(ours) if !rule.ours.contains(&ours) => {
                    wrong.push(format!("{} may not know {ours} ([{section}])", rule.name));
                }
                None if rule.never.contains(&name.as_str()) && section != "dev-dependencies" => {
                    wrong.push(format!("{} may not use {name} ([{section}])", rule.name));
                }
                _ => {}
            }
        }
    }
    wrong
}

#[test]
fn crates_know_only_whom_they_may() {
    let mut wrong = Vec::new();
    for (name, manifest) in manifests() {
        let sections = dependencies(&manifest);
        let whole_root = Rule { name: "the binary", ours: ROOT, never: &[] };
        match RULES.iter().find(|rule| rule.name == name) {
            Some(rule) => wrong.extend(breaches(rule, &sections)),
            None if name == "tokamak" => wrong.extend(breaches(&whole_root, &sections)),
            None => wrong.push(format!("crate {name} has no row in the table")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_about_a_crate_that_exists_and_looks_down() {
    let present: BTreeSet<String> = manifests().into_iter().map(|(name, _)| name).collect();
    for (floor, rule) in RULES.iter().enumerate() {
        assert!(present.contains(rule.name), "there is no crate {}", rule.name);
        for ours in rule.ours {
            let below = RULES[..floor].iter().any(|other| other.name == *ours);
            assert!(below, "{} is granted {ours}, which is not below it", rule.name);
        }
    }
}

#[test]
fn a_forbidden_edge_is_found() {
    let edges = |section: &str, name: &str| {
        BTreeMap::from([(section.to_string(), BTreeSet::from([name.to_string()]))])
    };
    let supervisor = RULES.iter().find(|rule| rule.name == "supervisor").expect("a row");
    assert_eq!(breaches(supervisor, &edges("dependencies", "tokamak-front")).len(), 1);
    assert_eq!(breaches(supervisor, &edges("dependencies", "tokio")).len(), 1);
    assert_eq!(breaches(supervisor, &edges("dependencies", "tokamak-sys")).len(), 0);
    assert_eq!(breaches(supervisor, &edges("dev-dependencies", "tokamak-php")).len(), 1);
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    for (name, manifest) in manifests() {
        let text = std::fs::read_to_string(&manifest).expect("a readable manifest");
        let inherits = text.contains("[lints]\nworkspace = true");
        let room = UNSAFE_ROOMS.contains(&name.as_str());
        assert_eq!(inherits, !room, "{name}: only {UNSAFE_ROOMS:?} set lints of their own");
        if room {
            for lint in
                ["unsafe_op_in_unsafe_fn = \"deny\"", "undocumented_unsafe_blocks = \"deny\""]
            {
                assert!(text.contains(lint), "{name}: {lint} is missing");
            }
        }
    }
    let text = std::fs::read_to_string(root().join("Cargo.toml")).expect("a readable manifest");
    assert!(text.contains("unsafe_code = \"forbid\""), "the workspace forbids unsafe code");
}

/// The formats of `/proc` are known to one module, in `sys`.
#[test]
fn nothing_but_sys_reads_proc() {
    let reads = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a source file");
        let code = text.split("#[cfg(test)]\nmod ").next().expect("the first part");
        ["(\"/proc", "c\"/proc", "[\"/proc"].iter().any(|opened| code.contains(opened))
    };
    let (sys, others): (Vec<_>, Vec<_>) = manifests()
        .into_iter()
        .flat_map(|(_, manifest)| crate::circles::sources(&manifest.with_file_name("src")))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(reads)
        .partition(|path| path.starts_with(root().join("crates/sys/src")));
    assert!(sys.contains(&root().join("crates/sys/src/proc.rs")), "the test finds nothing");
    assert!(others.is_empty(), "tokamak_sys::proc reads for others, too: {others:?}");
}

/// Every file that git tracks, relative to the root.
pub fn tracked() -> Vec<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["ls-files", "-z"])
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("file names are text");
    // A file may be tracked and deleted at the moment of the test: somebody is at work.
    names
        .split_terminator('\0')
        .filter(|name| root().join(name).is_file())
        .map(str::to_string)
        .collect()
}

/// Whether a line names a folder that only one machine has, or a host that packages come from.
///
/// The patterns are put together here, so that this file does not name them itself.
fn names_a_machine(line: &str) -> Option<String> {
    let roots = [concat!("/wo", "rk/"), concat!("/fa", "rm/")];
    for pattern in roots {
        for (at, _) in line.match_indices(pattern) {
            let starts_a_path = !line[..at]
                .ends_with(|before: char| before.is_ascii_alphanumeric() || before == '_');
            let goes_on =
                line[at + pattern.len()..].starts_with(|next: char| next.is_ascii_lowercase());
            if starts_a_path && goes_on {
                return Some(pattern.to_string());
            }
        }
    }
    let anywhere = [
        concat!("/ro", "ot/"),
        concat!("/.lib", "rary"),
        concat!("static.", "crates.io"),
        concat!("index.", "crates.io"),
        concat!("deb.", "debian.org"),
        concat!("security.", "debian.org"),
        concat!("registry.", "npmjs.org"),
        concat!("files.", "pythonhosted.org"),
        concat!("proxy.", "golang.org"),
    ];
    anywhere.iter().find(|pattern| line.contains(**pattern)).map(|pattern| (*pattern).to_string())
}

#[test]
fn no_file_names_one_machine_or_a_package_host() {
    let mut wrong = Vec::new();
    for name in tracked() {
        let Ok(text) = std::fs::read_to_string(root().join(&name)) else { continue };
        for (number, line) in text.lines().enumerate() {
            if let Some(pattern) = names_a_machine(line) {
                wrong.push(format!("{name}:{}: {pattern}", number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "the project must run anywhere:\n{}", wrong.join("\n"));
}

#[test]
fn a_word_is_not_taken_for_a_machine_path() {
    assert!(names_a_machine(concat!("root = \"/wo", "rk/site\"")).is_some());
    assert!(names_a_machine(concat!("see fieldwo", "rk/site")).is_none());
    assert!(names_a_machine(concat!("cd frame/wo", "rk/")).is_none());
    assert!(names_a_machine(concat!("url = \"https://index.", "crates.io/\"")).is_some());
    assert!(names_a_machine("root = \"/srv/shop/public\"").is_none());
}

#[test]
fn files_stay_readable() {
    let mut wrong = Vec::new();
    for name in tracked() {
        let source =
            [".rs", ".c", ".h", ".php", ".py", ".js"].iter().any(|end| name.ends_with(end));
        let elsewhere = name
            .split('/')
            .any(|part| ["test", "tests", "bench", "fuzz", "examples"].contains(&part));
        if !source || elsewhere {
            continue;
        }
        let lines = std::fs::read_to_string(root().join(&name))
            .map(|text| text.lines().count())
            .unwrap_or(0);
        if lines > LONGEST_FILE {
            wrong.push(format!("{name}: {lines} lines, at most {LONGEST_FILE}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Columns that a comment or a line of prose may have. Code is rustfmt's business.
const WIDEST: usize = 100;

/// Whether a line is drawn or aligned, and not prose: a diagram, or columns set by blanks.
fn is_drawn(line: &str) -> bool {
    let text = line.trim().trim_start_matches(['/', '!', '*', ' ']);
    text.contains("  ") || text.contains(|c| ('\u{2500}'..='\u{25ff}').contains(&c))
}

/// The comments of a source file and the prose of a page that are too wide, by their line.
fn too_wide(name: &str, text: &str) -> Vec<usize> {
    let is_page = name.ends_with(".md");
    let mut in_code = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let is_fence = is_page && start.starts_with("```");
        in_code ^= is_fence;
        let is_prose = if is_page {
            // Tables, blocks of code and addresses cannot be wrapped.
            !in_code && !start.starts_with('|') && !line.starts_with("    ")
        } else {
            start.starts_with("//") || start.starts_with("/*") || start.starts_with("* ")
        };
        if is_prose && !is_drawn(line) && line.chars().count() > WIDEST {
            found.push(number + 1);
        }
    }
    found
}

#[test]
fn comments_and_prose_fit_the_screen() {
    let mut wrong = Vec::new();
    for name in tracked() {
        let is_checked = [".rs", ".c", ".h", ".md"].iter().any(|end| name.ends_with(end));
        // What was measured is kept as it was written.
        if !is_checked || name.starts_with("bench/results/") {
            continue;
        }
        let text = std::fs::read_to_string(root().join(&name)).expect("a readable file");
        wrong.extend(too_wide(&name, &text).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(wrong.is_empty(), "wider than {WIDEST} columns:\n{}", wrong.join("\n"));
}

#[test]
fn a_wide_line_is_found_where_it_is_prose() {
    let wide = "word ".repeat(25);
    for (name, line, found) in [
        ("a.rs", format!("    // {wide}"), 1),
        ("a.rs", format!("let text = \"{wide}\";"), 0),
        ("a.rs", format!("//! a  {wide}"), 0),
        ("a.c", format!(" * {wide}"), 1),
        ("a.c", format!(" * ──► {wide}"), 0),
        ("a.md", wide.clone(), 1),
        ("a.md", format!("| {wide} |"), 0),
        ("a.md", format!("```\n{wide}\n```"), 0),
    ] {
        assert_eq!(too_wide(name, &line).len(), found, "{name}: {line}");
    }
}

/// Licences that ask for nothing but to be named.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "Zlib",
    "0BSD",
    "Unicode-3.0",
    "Unlicense",
];

/// Whether a licence expression leaves us a choice that we accept: every `AND` part has an accepted
/// `OR` part.
fn may_be_shipped(expression: &str) -> bool {
    let accepted = |name: &str| LICENCES.contains(&name.trim_matches(['(', ')', ' ']));
    expression.split(" AND ").all(|part| part.replace('/', " OR ").split(" OR ").any(accepted))
}

#[test]
fn every_dependency_may_be_shipped() {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--locked",
            "--offline",
            "--format-version",
            "1",
            "--filter-platform",
            &platform,
        ])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert!(packages.len() > 50, "only {} packages", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(may_be_shipped))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "licences to look at:\n{}", refused.join("\n"));
}

#[test]
fn licences_are_judged() {
    for good in
        ["MIT", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0", "GPL-2.0 OR Unlicense"]
    {
        assert!(may_be_shipped(good), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "SSPL-1.0", ""] {
        assert!(!may_be_shipped(bad), "{bad}");
    }
}
