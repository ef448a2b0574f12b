//! `docs/isolation.md`, made from what the tests see. `UPDATE_DOCS=1 cargo test --test it --
//! canary` writes it.

use std::fmt::Write;
use std::fs;
use std::sync::Mutex;

use super::Channel;
use crate::layers::root;

const INTRODUCTION: &str = "\
<!-- Generated from what the tests see; the text is in tests/it/canary/page.rs, the channels are in
     tests/canary. Run UPDATE_DOCS=1 cargo test --test it -- canary -->

# What one request leaves for the next

One request pollutes a channel: it sets a variable, a locale, a lock. The next request, of another
visitor, looks for it in the same process. This is what it finds, channel by channel, as the tests
see it at every change.

| | |
| --- | --- |
| `reset` | nothing |
| `replaced` | nothing, because the server has replaced the process |
| `shared` | the pollution, and that is what the channel is for: a cache, a connection that was asked to stay |
| `stays` | the pollution |
| – | not tested yet |

**Classic** mode leaves nothing, in the process too: what a request did there is put back, or the
worker is replaced after the response and says why in the error log. A request that did nothing of
the kind pays nothing for it. Files, mappings and threads are looked for only after a request that
has called C by itself, with `FFI`: extensions keep theirs on purpose.

What no channel asks for is looked for, too: a test calls every function that sets, opens,
registers, enables or loads something, with whatever arguments fit, and compares all that the next
request can see of its process. What it finds is a row here.

**Worker** mode is for applications that keep things on purpose. The server resets what is listed in
[Classic and worker mode](classic-and-worker.md#what-is-reset), where each kind can also be kept;
the table shows the defaults.

**Sealed** mode leaves nothing in the process. APCu is memory that all workers share on purpose: it
stays in this mode too.

**Async** mode keeps what worker mode keeps, but for what each request has of its own: see [Async
mode](async.md#what-belongs-to-a-request), also for what requests see of each other that are served
at once.

";

const WITH_FFI: &str = "\
Through FFI alone

These channels need `FFI`, by which a script calls C: no function of PHP's reaches them. `ffi.enable
= preload`, which is PHP's default, closes all of them for web requests. Where it is `true`, what
the last columns say is closed by a closer look after each request that has called C (at memory,
threads, descriptors, limits, rights, rounding), which only such requests pay for. A script that
calls C can also write to any memory of its own process, and what it writes to memory that processes
share (the opcode cache) is seen by all of them: nothing closes that.";

/// The columns of the tables. Each is written by the test of its own mode and kept by the others.
const COLUMNS: [&str; 5] = ["php-fpm", "classic", "worker", "sealed", "async"];

/// A channel with its cells.
struct Row<'a> {
    channel: &'a Channel,
    cells: [String; COLUMNS.len()],
}

/// Fails unless the column of this server says what was found. The cells of others, and of channels
/// that this PHP does not have, are those of the page.
pub fn compare(server: &str, found: &[(&Channel, Option<&str>)]) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let path = root().join("docs/isolation.md");
    let written = fs::read_to_string(&path).unwrap_or_default();
    let row = |&(channel, found): &(_, Option<&str>)| {
        let cells = COLUMNS.map(|column| match found {
            Some(found) if column == server => found.to_owned(),
            _ => cell(&written, channel, column),
        });
        Row { channel, cells }
    };
    let page = page(&found.iter().map(row).collect::<Vec<_>>());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, page).expect("docs/ is there");
    } else {
        assert!(
            page == written,
            "docs/isolation.md is old; run UPDATE_DOCS=1 cargo test --test it -- canary"
        );
    }
}

/// Channels of extensions that are not loaded at every change.
const OF_OTHER_EXTENSIONS: &str = "
## Other extensions

`scripts/test-leftovers` calls the functions of all of Debian's extensions. This is what it finds of
those that the tests of every change do not load; `pcov`, `uopz` and MongoDB's subscribers were
tried by hand.

| channel | php-fpm | classic | worker | sealed | async |
| --- | --- | --- | --- | --- | --- |
| odbc_error() without a connection | – | reset | stays | reset | stays |
| stomp_connect_error() | – | reset | stays | reset | stays |
| pinba_tag_set() | – | reset | stays | reset | stays |
| rrd_error() | stays | reset | stays | reset | stays |
| connections of Memcache, contexts of ZMQ | – | shared | shared | reset | shared |
| MongoDB\\Driver\\Monitoring\\addSubscriber() | – | reset | stays | reset | stays |
| \\pcov\\start() | stays | replaced | stays | – | stays |
| uopz_redefine(), uopz_undefine(), uopz_flags() | stays | replaced | stays | – | stays |
";

fn page(rows: &[Row]) -> String {
    let mut page = INTRODUCTION.to_owned();
    let heading = format!(" {} |\n|{}\n", COLUMNS.join(" | "), " --- |".repeat(COLUMNS.len() + 1));

    let _ = write!(page, "| of {} channels |{heading}", rows.len());
    for outcome in ["reset", "replaced", "shared", "stays"] {
        let _ = write!(page, "| `{outcome}` |");
        for column in 0..COLUMNS.len() {
            let count = rows.iter().filter(|row| row.cells[column] == outcome).count();
            let _ = write!(page, " {count} |");
        }
        page.push('\n');
    }
    let mut section = |heading_text: &str, rows: &[&Row]| {
        let _ = write!(page, "\n## {heading_text}\n\n| channel |{heading}");
        for row in rows {
            let _ = writeln!(page, "| {} | {} |", row.channel.name, row.cells.join(" | "));
        }
    };
    let (with_ffi, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.channel.ffi);
    for of_topic in others.chunk_by(|a, b| a.channel.topic == b.channel.topic) {
        section(&of_topic[0].channel.topic, of_topic);
    }
    section(WITH_FFI, &with_ffi);
    page + OF_OTHER_EXTENSIONS
}

/// What the page says of a channel; a dash if it says nothing.
fn cell(page: &str, channel: &Channel, column: &str) -> String {
    let prefix = format!("| {} |", channel.name);
    let row = page.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default();
    let position = COLUMNS.iter().position(|own| *own == column);
    let cell = position.and_then(|position| row.split('|').nth(position)).unwrap_or_default();
    if cell.trim().is_empty() { "–".into() } else { cell.trim().into() }
}

#[test]
fn the_readme_counts_as_the_page_does() {
    let read = |name: &str| fs::read_to_string(root().join(name)).expect("it is there");
    let (page, readme) = (read("docs/isolation.md"), read("README.md"));
    let cells = |row: &str| -> Vec<String> {
        // The words are explained in a table of their own, above.
        let row = page.lines().rfind(|line| line.starts_with(row)).expect("the row");
        row.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let (heading, stays) = (cells("| of "), cells("| `stays` |"));
    let count = heading[1].trim_start_matches("of ").trim_end_matches(" channels");
    let column = heading.iter().position(|cell| cell == "worker").expect("a column");
    let open = &stays[column];
    let sentence = format!(
        "Of {count} ways by which one request can reach the next, {open} are open in worker mode"
    );
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&sentence), "README.md does not say: {sentence}");
}
