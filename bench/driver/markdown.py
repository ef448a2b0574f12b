"""The Markdown that summaries are written in, as HTML: headings, tables, lists, code, prose."""

import re
from html import escape
from itertools import groupby


def inline(text: str) -> str:
    """One line of text. Links are left as their words: a report is read without its neighbours."""
    text = escape(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), quote=False)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def table(lines: list[str]) -> str:
    """Rows of cells; the second line only says how they are aligned."""
    rows = [[inline(cell.strip()) for cell in line.strip().strip("|").split("|")] for line in lines]
    head = "".join(f'<th scope="col">{cell}</th>' for cell in rows[0])
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows[2:]
    )
    head = f"<thead><tr>{head}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def block(lines: list[str], level: int) -> str:
    """Lines without an empty one between them, of one kind."""
    if lines[0].startswith("#"):
        deep, text = lines[0].split(" ", 1)
        size = min(6, level + len(deep))
        rest = block(lines[1:], level) if lines[1:] else ""
        return f"<h{size}>{inline(text)}</h{size}>{rest}"
    if lines[0].startswith("|"):
        return table(lines)
    if lines[0].startswith("- "):
        return "<ul>" + "".join(f"<li>{inline(line[2:])}</li>" for line in lines) + "</ul>"
    return f"<p>{inline(' '.join(lines))}</p>"


def html(text: str, level: int = 0) -> str:
    """The whole text; its headings are `level` deeper than they say."""
    parts = []
    # Every other piece is between fences.
    for number, piece in enumerate(re.split(r"^```.*\n", text, flags=re.MULTILINE)):
        if number % 2:
            parts.append(f"<pre>{escape(piece, quote=False)}</pre>")
            continue
        for is_text, lines in groupby(piece.splitlines(), key=bool):
            if is_text:
                parts.append(block(list(lines), level))
    return "\n".join(parts)
