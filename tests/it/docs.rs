//! The documentation is true: its examples run, its links lead somewhere, its list of dependencies
//! is the one in the manifests. CONTRIBUTING.md tells the marks that examples carry.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;
use tokamak_config::option;
use tokamak_cost::Phase;

use crate::harness::extensions::{SCAN_DIRECTORY, scan_directory};
use crate::harness::{Process, eventually, free_address, program};
use crate::layers::{dependencies, manifests, root, tracked};

/// The address that examples speak of; the tests put a free one in its place.
const ADDRESS: &str = "127.0.0.1:8080";

/// The address for TLS in the examples.
const SECURE: &str = "127.0.0.1:8443";

/// A second address for HTTP in the examples.
const OTHER: &str = "127.0.0.1:8081";

/// One fenced block of a page.
#[derive(Debug, PartialEq)]
struct Block {
    /// First word after the fence: the language.
    language: String,
    /// The words after it.
    marks: Vec<String>,
    text: String,
    /// Line of the opening fence.
    line: usize,
}

impl Block {
    fn has(&self, mark: &str) -> bool {
        self.marks.iter().any(|own| own == mark)
    }

    /// The file that the block becomes, by `file=NAME`.
    fn file(&self) -> Option<&str> {
        self.marks.iter().find_map(|mark| mark.strip_prefix("file="))
    }

    /// The socket of a program that is to be started.
    fn start(&self) -> Option<&str> {
        self.marks.iter().find_map(|mark| mark.strip_prefix("start="))
    }
}

/// The fenced blocks of a page. A fence is closed by one at least as long, so a block may show
/// fences.
fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for (number, line) in page.lines().enumerate() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match &mut open {
            None if ticks >= 3 => {
                let mut words = line[ticks..].split_whitespace().map(str::to_string);
                let language = words.next().unwrap_or_default();
                let block = Block {
                    language,
                    marks: words.collect(),
                    text: String::new(),
                    line: number + 1,
                };
                open = Some((ticks, block));
            }
            None => {}
            Some((fence, _)) if ticks >= *fence && line.trim_end().len() == ticks => {
                found.extend(open.take().map(|(_, block)| block));
            }
            Some((_, block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
    }
    if let Some((_, block)) = open {
        panic!("the fence of line {} is never closed", block.line);
    }
    found
}

/// Every page: name relative to the root, and text.
fn pages() -> Vec<(String, String)> {
    let pages: Vec<_> = tracked()
        .into_iter()
        .filter(|name| name.ends_with(".md"))
        .map(|name| (name.clone(), fs::read_to_string(root().join(&name)).expect("a page is text")))
        .collect();
    assert!(pages.iter().any(|(name, _)| name == "README.md"), "README.md is a page");
    pages
}

/// The file of this name that a page shows.
pub fn shown(page: &str, file: &str) -> String {
    let text = fs::read_to_string(root().join(page)).expect("a page");
    let block = blocks(&text).into_iter().find(|block| block.file() == Some(file));
    block.unwrap_or_else(|| panic!("{page} shows no {file}")).text
}

/// The folder in which the examples of one page stand, and the server that they started.
struct Desk {
    address: SocketAddr,
    /// In place of [`SECURE`].
    secure: SocketAddr,
    /// In place of [`OTHER`], on a page that names it.
    other: Option<SocketAddr>,
    server: Option<Process>,
    /// Programs of `sh start` blocks, until the end of the page.
    programs: Vec<Process>,
    /// The last field, so that it is dropped after the programs that write into it.
    folder: TempDir,
}

impl Desk {
    fn new(page: &str) -> Desk {
        let folder = tempfile::Builder::new().prefix("tokamak-docs-").tempdir().expect("a folder");
        // Examples started by root serve as another user, who has to be able to read them.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let (address, secure) = (free_address(), free_address());
        let other = page.contains(OTHER).then(free_address);
        Desk { address, secure, other, server: None, programs: Vec::new(), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        fs::write(&path, self.with_own(text)).expect("a file");
        path
    }

    /// What the examples' programs find in their environment.
    fn environment(&self) -> Vec<(String, String)> {
        let programs = program().parent().expect("a program has a folder").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let listen = [Some(self.address), self.other].into_iter().flatten();
        let listen: Vec<String> = listen.map(|address| address.to_string()).collect();
        vec![
            ("PATH".into(), format!("{programs}:{path}")),
            (SCAN_DIRECTORY.into(), scan_directory().into()),
            ("TOKAMAK_LISTEN".into(), listen.join(",")),
            ("TOKAMAK_CONTROL".into(), self.path("control").display().to_string()),
        ]
    }

    /// The text with addresses that are free.
    fn with_addresses(&self, text: &str) -> String {
        self.with_own(text).replace(ADDRESS, &self.address.to_string())
    }

    /// The text with free addresses in place of those that no variable of the environment replaces.
    fn with_own(&self, text: &str) -> String {
        let text = text.replace(SECURE, &self.secure.to_string());
        self.other.map_or(text.clone(), |other| text.replace(OTHER, &other.to_string()))
    }

    fn shell(&self, script: &str) -> Output {
        let script = self.with_addresses(script);
        // The longest measures a thousand requests: beside other programs more than a minute.
        Command::new("timeout")
            .args(["180", "bash", "-euo", "pipefail", "-c", &script])
            .current_dir(self.folder.path())
            .envs(self.environment())
            .output()
            .expect("bash runs")
    }

    /// Starts the program of a `sh start` block, and waits until it has made its socket.
    fn start(&mut self, command: &str, socket: &str) {
        let script = format!("cd '{}' && exec {}", self.folder.path().display(), command.trim());
        let log = self.path("program.log");
        let program =
            Process::start(Path::new("bash"), &["-c".into(), script], &self.environment(), &log);
        self.programs.push(program);
        let there = || self.path(socket).exists().then_some(());
        let said = || fs::read_to_string(&log).unwrap_or_default();
        eventually(Duration::from_secs(20), there)
            .unwrap_or_else(|| panic!("`{command}`: {}", said()));
    }

    /// Starts the server of a `sh serve` block in place of the one before.
    fn serve(&mut self, command: &str) {
        self.server = None;
        let command = self.with_addresses(command.trim());
        assert!(
            command.starts_with("tokamak serve") && command.lines().count() == 1,
            "not one serve: {command}"
        );
        let script = format!("cd '{}' && exec {command}", self.folder.path().display());
        let log = self.path("server.log");
        let server =
            Process::start(Path::new("bash"), &["-c".into(), script], &self.environment(), &log);
        let server = self.server.insert(server);
        let listening = eventually(Duration::from_secs(20), || {
            if let Some(status) = server.ended() {
                panic!(
                    "the server ended at its start: {status}\n{}",
                    fs::read_to_string(&log).unwrap_or_default()
                );
            }
            TcpStream::connect(self.address).ok().map(drop)
        });
        assert!(listening.is_some(), "`{command}` does not listen on {}", self.address);
    }
}

/// What a transcript expects and did not get: lines marked `#>`, each part of a line, in their
/// order.
fn missing_output<'a>(script: &'a str, output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    script
        .lines()
        .filter_map(|line| line.strip_prefix("#>").map(str::trim))
        .find(|expected| !lines.any(|line| line.contains(expected)))
}

fn complaints(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn configurations_pass_the_check() {
    let mut count = 0;
    for (page, text) in pages() {
        let desk = Desk::new(&text);
        for block in blocks(&text) {
            if let Some(name) = block.file() {
                desk.write(name, &block.text);
            }
            if block.language != "toml" || !block.has("tokamak") {
                continue;
            }
            let file = desk.write(block.file().unwrap_or("tokamak.toml"), &block.text);
            let mut command = Command::new(program());
            let output =
                command.arg("check").arg("--config").arg(file).envs(desk.environment()).output();
            let output = output.expect("tokamak runs");
            assert!(output.status.success(), "{page}:{}: {}", block.line, complaints(&output));
            count += 1;
        }
    }
    assert!(count > 0, "no page shows a configuration");
}

#[test]
fn php_is_php() {
    for (page, text) in pages() {
        let desk = Desk::new(&text);
        for block in blocks(&text).into_iter().filter(|block| block.language == "php") {
            assert!(block.text.starts_with("<?php"), "{page}:{}: begin with <?php", block.line);
            let file = desk.write("example.php", &block.text);
            let output = Command::new("php")
                .arg("-l")
                .arg(file)
                .envs(desk.environment())
                .output()
                .expect("php runs");
            assert!(output.status.success(), "{page}:{}: {}", block.line, complaints(&output));
        }
    }
}

#[test]
fn transcripts_come_true() {
    let mut count = 0;
    for (page, text) in pages() {
        let blocks = blocks(&text);
        if !blocks.iter().any(|block| block.language == "sh" && block.has("run")) {
            continue;
        }
        let mut desk = Desk::new(&text);
        for block in &blocks {
            if let Some(name) = block.file() {
                desk.write(name, &block.text);
            } else if block.language == "sh" && block.has("serve") {
                desk.serve(&block.text);
            } else if let ("sh", Some(socket)) = (block.language.as_str(), block.start()) {
                desk.start(&block.text, socket);
            } else if block.language == "sh" && block.has("run") {
                let output = desk.shell(&block.text);
                let log = || fs::read_to_string(desk.path("server.log")).unwrap_or_default();
                assert!(
                    output.status.success(),
                    "{page}:{}: {}\n{}",
                    block.line,
                    complaints(&output),
                    log()
                );
                let shown = String::from_utf8_lossy(&output.stdout).into_owned();
                if let Some(expected) = missing_output(&block.text, &shown) {
                    panic!(
                        "{page}:{}: no {expected:?} in: {}\n{}",
                        block.line,
                        complaints(&output),
                        log()
                    );
                }
                count += 1;
            }
        }
    }
    assert!(count > 0, "no page shows a transcript");
}

/// The targets of a page's links and images that are files: `[text](target#place)`.
fn linked_files(page: &str) -> Vec<String> {
    let text: String = {
        let code: Vec<Block> = blocks(page);
        code.iter().fold(page.to_string(), |text, block| text.replacen(&block.text, "", 1))
    };
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#', ' ']).next())
        .filter(|target| {
            !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")
        })
        .map(str::to_string)
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for (page, text) in pages() {
        let folder = root().join(&page).parent().expect("a page has a folder").to_path_buf();
        for target in linked_files(&text) {
            if !folder.join(&target).exists() {
                wrong.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links to nothing:\n{}", wrong.join("\n"));
}

/// The names in the table of docs/dependencies.md: rows of name in code marks, users, reason.
fn documented_dependencies(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let name = cells[0].trim_end_matches('`').to_string();
            let reason = cells.get(2).copied().unwrap_or_default();
            assert!(reason.split_whitespace().count() > 3, "{name}: why do we need it?");
            name
        })
        .collect()
}

#[test]
fn every_dependency_has_a_reason() {
    let page =
        fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md");
    let documented = documented_dependencies(&page);
    let used: BTreeSet<String> = manifests()
        .iter()
        .flat_map(|(_, manifest)| dependencies(manifest).into_values().flatten())
        .filter(|name| !name.starts_with("tokamak-"))
        .collect();
    let undocumented: Vec<_> = used.difference(&documented).collect();
    let unused: Vec<_> = documented.difference(&used).collect();
    assert!(undocumented.is_empty(), "docs/dependencies.md says nothing about {undocumented:?}");
    assert!(unused.is_empty(), "docs/dependencies.md names {unused:?}, which no crate uses");
}

/// What is in code marks.
fn codes(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Limits without an option: a part of their rows, and the file and the line that say them.
const FIXED_LIMITS: [(&str, &str, &str); 10] = [
    (
        "| bytes of a PROXY header | – | 4096 |",
        "crates/front/src/http/proxy_protocol/header.rs",
        "const LONGEST: usize = 4096;",
    ),
    (
        "| bytes of trailers | – | 8192 |",
        "crates/front/src/http/h1/screen/mod.rs",
        "const TRAILERS_MOST: usize = 8192;",
    ),
    (
        "| bytes of chunk extensions in a body | – | 4096 |",
        "crates/front/src/http/h1/screen/body.rs",
        "const EXTENSIONS_MOST: usize = 4096;",
    ),
    (
        "| – | 32, from the right |",
        "crates/front/src/client/forwarded/chain.rs",
        "const MOST_HOPS: usize = 32;",
    ),
    (
        "| ranges of a file | – | 16 |",
        "crates/front/src/response/files/ranges.rs",
        "const MOST: usize = 16;",
    ),
    (
        "that nobody reads | – | 5 s |",
        "crates/front/src/http/h1/io.rs",
        "const LINGER: Duration = Duration::from_secs(5);",
    ),
    (
        "| rules of a site with `auth_users` | 32 |",
        "crates/config/src/resolve/rule.rs",
        "const MOST_LOGINS: usize = 32;",
    ),
    (
        "compressed while they are sent | – | 128 |",
        "crates/front/src/response/compression/stream.rs",
        "const MOST_ENCODERS: usize = 128;",
    ),
    (
        "`acme.dns_hook` | – | 5 minutes |",
        "crates/acme/src/hook.rs",
        "const LIMIT: Duration = Duration::from_secs(300);",
    ),
    (
        "| an order | – | 15 minutes |",
        "crates/acme/src/order.rs",
        "const LONGEST: Duration = Duration::from_secs(15 * 60);",
    ),
];

#[test]
fn the_page_of_limits_agrees_with_the_code() {
    let page = fs::read_to_string(root().join("docs/limits.md")).expect("the page of limits");
    let sources: String = tracked()
        .into_iter()
        .filter(|name| name.starts_with("crates/") && name.ends_with(".rs"))
        .map(|name| fs::read_to_string(root().join(name)).expect("a source"))
        .collect();
    let (mut named, mut wrong) = (BTreeSet::new(), Vec::new());
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, option, default, _, log] = cells[..] else { continue };
        wrong.extend(codes(log).filter(|text| !sources.contains(text)).map(str::to_owned));
        let Some(key) = codes(option).next() else { continue };
        let row = option::rows().find(|row| row.key() == key);
        let known = row.map(|row| row.default);
        if known.is_none() || codes(default).next() != known {
            wrong.push(format!("{key}: {default}, and not {known:?}"));
        }
        named.insert(key);
    }
    let is_limit = |row: &&option::Row| {
        matches!(row.section, "limits" | "timeouts" | "http2") && row.key() != "http2.enabled"
    };
    for (row, file, line) in FIXED_LIMITS {
        let source = fs::read_to_string(root().join(file)).expect("a source");
        if !page.contains(row) || !source.contains(line) {
            wrong.push(format!("{row}: {line} of {file}"));
        }
    }
    let missing = option::rows().filter(is_limit).map(option::Row::key);
    wrong.extend(missing.filter(|key| !page.contains(&format!("`{key}`"))));
    assert!(named.len() > 30 && wrong.is_empty(), "docs/limits.md:\n{}", wrong.join("\n"));
}

#[test]
fn every_phase_is_on_its_page() {
    let page = fs::read_to_string(root().join("docs/internals/phases.md"))
        .expect("the page of the phases");
    let documented: Vec<(&str, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|row| {
            let mut cells = row.trim_end_matches('|').split('|').map(str::trim);
            Some((cells.next()?.trim_end_matches('`'), cells.nth(1)?))
        })
        .collect();
    let stamped: Vec<_> = Phase::ALL.iter().map(|phase| (phase.name(), phase.meaning())).collect();
    assert_eq!(documented, stamped);
}

#[test]
fn blocks_are_read() {
    let page = "a\n````md\n```php\n```\n````\n```sh run file=x\necho\n#> y\n```\n";
    let blocks = blocks(page);
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0].text, "```php\n```\n");
    assert_eq!((blocks[1].language.as_str(), blocks[1].line), ("sh", 6));
    assert!(blocks[1].has("run"));
    assert_eq!(blocks[1].file(), Some("x"));
}

#[test]
fn expected_output_is_looked_for_in_order() {
    let script = "echo\n#> one\n#> two\n";
    assert_eq!(missing_output(script, "zero\nline one\ntwo\n"), None);
    assert_eq!(missing_output(script, "two\none\n"), Some("two"));
}

#[test]
fn links_are_found_outside_of_code() {
    let page = "[a](b.md#c) ![d](e.svg)\n```\n[no](f.md)\n```\n[g](https://example.org/) [h](#i)\n";
    assert_eq!(linked_files(page), ["b.md", "e.svg"]);
}
