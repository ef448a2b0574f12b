//! `docs/async-state.md`, made from the rows of the canaries. `UPDATE_DOCS=1 cargo test -p
//! tokamak-php --test it -- canaries` writes it.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::Row;

const INTRODUCTION: &str = "\
<!-- Generated from what the tests see; the text is in crates/php/tests/it/canaries/page.rs, the
     rows are beside it. Run UPDATE_DOCS=1 cargo test -p tokamak-php --test it -- canaries -->

# What belongs to a request in async mode

In [async mode](async.md) one process serves many requests at once. Each row here is something that
PHP, an extension or the system keeps once for a process. A test has requests set it to values of
their own and read it back while up to 50 of them take turns, in an order that a seed draws and that
goes on to another request at every wait, ready or not. `own`: no request ever saw the value of
another, nor did its change outlive it. `shared`: it did, and this is what to do instead.

What no row names is looked at, too: each field that PHP's headers declare is a request's own or has
a written reason why it need not be, and at each switch a request that goes on finds all memory of
PHP and of its extensions as it left it, byte by byte, but for what has such a reason.

";

/// Of extensions that the tests do not load: seen by hand.
const OTHER_EXTENSIONS: &str = r"
## Other extensions

The tests do not load these; they were tried by hand. [Another page](isolation.md#other-extensions)
has more of them.

| state | async |
| --- | --- |
| `MongoDB\Driver\Monitoring\addSubscriber()` | shared: `addSubscriber()` of a `Manager` that the request has made, or before the loop begins, for all |
";

/// Fails unless the page has these rows.
pub fn compare(rows: &[Row]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/async-state.md");
    let page = page(rows);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, page).expect("docs/ is there");
    } else {
        assert!(
            page == fs::read_to_string(&path).unwrap_or_default(),
            "docs/async-state.md is old; run UPDATE_DOCS=1 cargo test -p tokamak-php --test it -- \
             canaries"
        );
    }
}

fn page(rows: &[Row]) -> String {
    let mut page = INTRODUCTION.to_owned();
    let shared = rows.iter().filter(|row| row.instead.is_some()).count();
    let _ = writeln!(
        page,
        "Of {} rows {} are each request's own, {shared} are shared.",
        rows.len(),
        rows.len() - shared
    );
    for of_topic in rows.chunk_by(|a, b| a.topic == b.topic) {
        let _ = write!(page, "\n## {}\n\n| state | async |\n| --- | --- |\n", of_topic[0].topic);
        for row in of_topic {
            let treatment = match &row.instead {
                None => "own".to_owned(),
                Some(instead) => format!("shared: {instead}"),
            };
            let _ = writeln!(page, "| {} | {treatment} |", row.name);
        }
    }
    page += OTHER_EXTENSIONS;
    page
}
