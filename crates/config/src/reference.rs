//! `docs/configuration.md`, made from the table of options. A test keeps the file equal to what
//! this says; `UPDATE_DOCS=1 cargo test -p tokamak-config` writes it.

use std::fmt::Write;

use crate::option::{GROUPS, Reload, Row};
use crate::text::sample;
use crate::value::ANY;

/// Columns of a line of prose.
const WIDTH: usize = 100;

const INTRODUCTION: &str = "\
<!-- Generated from the table of options; change the rows in crates/config/src/option, then run
     UPDATE_DOCS=1 cargo test -p tokamak-config -->

# Configuration

No configuration is needed: `tokamak serve PATH` serves the application in the directory `PATH` (its
`public/index.php`, else its `index.php`, else its static files), or one script. All that can be set
is on this page.

A setting comes from the first of these that has it:

1. the **flag** of `tokamak serve` and `tokamak check`,
2. the **environment variable** (an empty one counts as not set; lists are separated by commas),
3. the **file**: `--config FILE`, else the environment variable `TOKAMAK_CONFIG`, else
   `tokamak.toml` in `PATH` (by default the current directory) if it is there,
4. the **default**.

`PATH` beside a file that was named by `--config` or `TOKAMAK_CONFIG` replaces the root of its only
site.

`tokamak check` reports every error with file, line and key; `tokamak check --print` prints the
effective configuration. Of values that are marked as not shown, and of settings of PHP whose name
sounds like a secret, it only says that they are set. `tokamak reload` reads everything again; if
something is wrong, the server keeps what it has.

- **size**: bytes as a number, or a text with `KiB`, `MiB`, `GiB` (powers of 1024) or `KB`, `MB`,
  `GB` (powers of 1000): `65536`, `\"64KiB\"`.
- **duration**: a text with `ms`, `s`, `m` or `h`: `\"500ms\"`, `\"30s\"`, `\"5m\"`.
- **path**: relative to the directory of the file; from a flag or variable, to the current
  directory.
- **restart**: a change takes effect at the next start; all others at `tokamak reload`.
";

/// The text of `docs/configuration.md`.
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    for group in GROUPS {
        let title = if group.heading.is_empty() {
            "Top level".into()
        } else {
            format!("`{}`", group.heading)
        };
        let _ = write!(out, "\n## {title}\n\n{}\n\n", wrapped(group.about));
        out.push_str(
            "| Key | Value | Default | Meaning | Variable, flag |\n| --- | --- | --- | --- | --- |\n",
        );
        for row in group.rows {
            let restart = if row.reload == Reload::Restart { " *(restart)*" } else { "" };
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {}{restart} | {} |",
                row.name,
                value(row),
                default(row),
                row.about,
                overrides(row),
            );
        }
    }
    let _ = write!(out, "\n## A file with every default\n\n```toml\n{}```\n", sample());
    out
}

/// A paragraph in lines as wide as the other pages have them.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.extend([" ", word]);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn value(row: &Row) -> String {
    let mut text = row.kind.describe();
    if row.bounds != ANY {
        let (least, most) = (row.kind.show(row.bounds.least), row.kind.show(row.bounds.most));
        let _ = write!(text, ", {least} to {most}");
    }
    if let Some(meaning) = row.bounds.off {
        let _ = write!(text, ", or 0: {meaning}");
    }
    text
}

fn default(row: &Row) -> String {
    if row.default.is_empty() { "–".into() } else { format!("`{}`", row.default) }
}

fn overrides(row: &Row) -> String {
    let names: Vec<String> =
        [row.variable, row.flag].into_iter().flatten().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

    #[test]
    fn the_page_in_docs_says_what_the_table_says() {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(FILE, reference()).expect("docs/ is there");
        }
        let written = std::fs::read_to_string(FILE).unwrap_or_default();
        assert!(
            written == reference(),
            "docs/configuration.md is old; run UPDATE_DOCS=1 cargo test -p tokamak-config"
        );
    }

    #[test]
    fn the_page_names_every_option() {
        let page = reference();
        for row in crate::option::rows() {
            assert!(page.contains(&format!("\n| `{}` |", row.name)), "{}", row.key());
        }
    }
}
