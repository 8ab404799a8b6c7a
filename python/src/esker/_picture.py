"""Small SVG drawings of lineages for notebooks and reports, without a library."""

from __future__ import annotations

import html
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._database import Lineage

__all__ = ["svg"]

_BOXES = 60
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LETTERS = 190, 30, 60, 14, 26
# Direction of data flow by edge type: a run's inputs are left of it, its outputs right of it.
_FORWARD = {"write": 1, "wasReadBy": 1, "read": -1, "wasWrittenBy": -1}


def _short(name: str) -> str:
    kind, _, key = name.partition(":")
    last = key.rstrip("/").rsplit("/", 1)[-1] or key
    return last if len(last) <= _LETTERS else last[: _LETTERS - 9] + "…" + last[-8:]


def _columns(names: list[str], flow: set[tuple[str, str]]) -> dict[str, int]:
    """Assigns columns such that each box is right of its inputs; cycles end after a bounded number of rounds."""
    column = dict.fromkeys(names, 0)
    for _ in names:
        moved = False
        for source, destination in flow:
            if column[destination] <= column[source] < len(names):
                column[destination] = column[source] + 1
                moved = True
        if not moved:
            break
    return column


def svg(lineage: Lineage) -> str | None:
    """Draws boxes from left to right, data and runs alternately; ``None`` for more than 60 boxes or for no box."""
    flow: set[tuple[str, str]] = set()
    for edge in lineage.edges():
        direction = _FORWARD.get(edge["type"])
        if direction:
            pair = (edge["source"], edge["destination"])
            flow.add(pair if direction > 0 else pair[::-1])
    names = sorted({name for pair in flow for name in pair})
    if not 0 < len(names) <= _BOXES:
        return None
    place: dict[str, tuple[int, int]] = {}
    rows: dict[int, int] = defaultdict(int)
    column = _columns(names, flow)
    used = {c: i for i, c in enumerate(sorted(set(column.values())))}
    for name in sorted(names, key=lambda n: (column[n], n)):
        c = used[column[name]]
        place[name] = (c, rows[c])
        rows[c] += 1
    width = len(used) * (_WIDTH + _GAP_X) - _GAP_X + 20
    height = max(rows.values()) * (_HEIGHT + _GAP_Y) - _GAP_Y + 20
    target = lineage.names[0]

    def at(name: str) -> tuple[int, int]:
        c, r = place[name]
        return 10 + c * (_WIDTH + _GAP_X), 10 + r * (_HEIGHT + _GAP_Y)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="lineage of {html.escape(target)}" font-family="system-ui, sans-serif" font-size="12">'
    ]
    for source, destination in sorted(flow):
        (x, y), (to_x, to_y) = at(source), at(destination)
        x, y, to_y, bend = x + _WIDTH, y + _HEIGHT // 2, to_y + _HEIGHT // 2, _GAP_X // 2
        curve = f"M{x} {y} C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"
        out.append(f'<path d="{curve}" fill="none" stroke="#8a94a6" stroke-width="1.4"/>')
    for name in names:
        (x, y), is_run = at(name), name.partition(":")[0] in ("execution", "job", "process")
        fill, line, round = ("#e8eefc", "#3b62c4", 14) if is_run else ("#f4f1e8", "#8a6d1f", 3)
        out.append(
            f'<g><title>{html.escape(name)}</title>'
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="{round}" '
            f'fill="{fill}" stroke="{line}" stroke-width="{2.5 if name == target else 1}"/>'
            f'<text x="{x + _WIDTH // 2}" y="{y + 19}" text-anchor="middle" fill="#1d2433">'
            f"{html.escape(_short(name))}</text></g>"
        )
    out.append("</svg>")
    return "".join(out)
