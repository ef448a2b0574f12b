//! Rows under heads, for screens of any width.

use std::ops::Range;

use tokamak_observe::text::for_terminal;

use crate::text::{Style, TextLine, columns, cut};

/// Columns that the longest text in a table may take, unless it is in the last column.
const LONGEST_CELL: usize = 48;
/// Blanks between two columns.
const GAP: usize = 2;
/// Columns of its text that the last column shows at least, if it has so many; else it begins a
/// line. With ten less a URL would be cut to its first letters; with ten more a usual screen would
/// take two lines for a row.
const LAST: usize = 20;

/// Columns as wide as their widest cell; those whose head begins with `>` hold numbers. A row that
/// does not fit into `room` goes on in further lines. Nothing, if there is no row.
pub fn table(heads: &[&str], mut rows: Vec<Vec<String>>, room: usize, lines: &mut Vec<TextLine>) {
    if rows.is_empty() {
        return;
    }
    let last = heads.len() - 1;
    for row in &mut rows {
        for (nth, cell) in row.iter_mut().enumerate() {
            *cell = for_terminal(cell).into_owned();
            let most = LONGEST_CELL.min(room.saturating_sub(GAP));
            if nth < last && columns(cell) > most {
                *cell = cut(cell, most.saturating_sub(1)) + "…";
            }
        }
    }
    rows.insert(0, heads.iter().map(|head| head.trim_start_matches('>').to_owned()).collect());
    let widest = |nth: usize| rows.iter().map(|row| columns(&row[nth])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(widest).collect();
    let groups = groups(&widths, room);
    lines.push(TextLine::default());
    for (index, row) in rows.iter().enumerate() {
        let style = if index == 0 { Style::Head } else { Style::Plain };
        for (line, group) in groups.iter().enumerate() {
            let mut text = " ".repeat(if line == 0 { 0 } else { GAP });
            for nth in group.clone() {
                let cell = &row[nth];
                let blanks = " ".repeat(widths[nth] - columns(cell));
                let is_number = heads[nth].starts_with('>');
                let (before, after) = if is_number { (&blanks[..], "") } else { ("", &blanks[..]) };
                text += &format!("{before}{cell}{after}  ");
            }
            if line == 0 || !text.trim().is_empty() {
                lines.push(TextLine::new(&text, style));
            }
        }
    }
}

/// Which columns stand in which line, if these are their widths.
fn groups(widths: &[usize], room: usize) -> Vec<Range<usize>> {
    let (mut groups, mut begin, mut taken) = (Vec::new(), 0, 0);
    for (nth, width) in widths.iter().enumerate() {
        let is_last = nth + 1 == widths.len();
        let needed = if is_last { LAST.min(*width) } else { *width };
        if nth > begin && taken + needed > room {
            groups.push(begin..nth);
            (begin, taken) = (nth, GAP);
        }
        taken += width + GAP;
    }
    groups.push(begin..widths.len());
    groups
}

/// Words of a sentence, each a part that is not divided, in as many lines as they need.
pub fn sentence(parts: &[String], room: usize, style: Style, lines: &mut Vec<TextLine>) {
    let mut text = String::new();
    for (nth, part) in parts.iter().enumerate() {
        let part = if nth + 1 < parts.len() { part.clone() + "," } else { part.clone() };
        if !text.is_empty() && columns(&text) + 1 + columns(&part) > room {
            lines.push(TextLine::new(&text, style));
            text = " ".to_owned();
        }
        if !text.is_empty() {
            text += " ";
        }
        text += &part;
    }
    lines.push(TextLine::new(&text, style));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(room: usize) -> Vec<String> {
        let rows = vec![vec!["a.example".into(), "12".into(), "7".into(), "/a/long/path".into()]];
        let mut lines = Vec::new();
        table(&["SITE", ">REQUESTS", ">WAITING", "URL"], rows, room, &mut lines);
        lines.iter().map(TextLine::plain).collect()
    }

    #[test]
    fn a_row_takes_one_line_where_it_fits_and_more_where_it_does_not() {
        assert_eq!(
            shown(80),
            ["", "SITE       REQUESTS  WAITING  URL", "a.example        12        7  /a/long/path"]
        );
        assert_eq!(
            shown(30),
            [
                "",
                "SITE       REQUESTS  WAITING",
                "  URL",
                "a.example        12        7",
                "  /a/long/path"
            ]
        );
        assert!(shown(12).iter().any(|line| line == "  /a/long/path"));
        for room in 14..80 {
            assert!(shown(room).iter().all(|line| columns(line) <= room), "{room}");
        }
    }

    #[test]
    fn a_sentence_is_divided_between_its_parts() {
        let parts = ["workers 0 of 2 busy", "0 requests wait", "connections 1"];
        let parts = parts.map(str::to_owned);
        let mut lines = Vec::new();
        sentence(&parts, 40, Style::Plain, &mut lines);
        let lines: Vec<String> = lines.iter().map(TextLine::plain).collect();
        assert_eq!(lines, ["workers 0 of 2 busy, 0 requests wait,", "  connections 1"]);
    }
}
