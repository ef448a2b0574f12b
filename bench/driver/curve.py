"""The frame of the curves that the documentation shows: light and dark, one width, one style."""

HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" role="img" \
aria-labelledby="title text"
  font-family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" font-size="13">
  <title id="title">{title}</title>
  <desc id="text">{about}</desc>
  <style>
    .page {{ fill: #faf9f7; }}
    .axis {{ stroke: #8b8794; fill: none; }}
    .grid {{ stroke: #c9c4bb; fill: none; stroke-dasharray: 3 3; }}
    .note {{ fill: #67636f; }}
    .ours {{ stroke: #c2361c; fill: none; stroke-width: 2; }}
    .dashed {{ stroke-dasharray: 6 4; }}
    .other {{ stroke: #8b8794; fill: none; stroke-width: 2; }}
    .seen {{ fill: #c2361c; }}
    @media (prefers-color-scheme: dark) {{
      .page {{ fill: #16151a; }}
      .grid {{ stroke: #4a4755; }}
      .note {{ fill: #a9a5b4; }}
      .ours {{ stroke: #ff8a5c; }}
      .seen {{ fill: #ff8a5c; }}
    }}
  </style>
  <rect class="page" width="640" height="360"/>
"""


def drawing(title: str, about: str, *lines: str) -> str:
    """A whole picture."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"{HEAD.format(title=title, about=about)}{body}</svg>\n"


def note(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Words."""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="note" x="{x:.1f}" y="{y:.1f}"{place}>{text}</text>'


def grid(left: float, y: float, text: str) -> list[str]:
    """A value of the upright axis, whose line goes to the right edge."""
    return [
        f'<path class="grid" d="M{left:g} {y:.1f} H620"/>',
        note(left - 8, y + 4, text, "end"),
    ]


def axes(left: float, of_x: str) -> list[str]:
    """Both, and what goes to the right."""
    return [
        f'<path class="axis" d="M{left:g} 20 V310 H620"/>',
        note(left / 2 + 310, 350, of_x, "middle"),
    ]


def line(kind: str, points: list[tuple[float, float]]) -> str:
    """A curve through points."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{places}"/>'


def key(row: int, kind: str, text: str) -> list[str]:
    """What a kind of line means."""
    y = 60 + 22 * row
    return [f'<path class="{kind}" d="M90 {y} h36"/>', note(134, y + 4, text)]
