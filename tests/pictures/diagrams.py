"""Diagrams as SVG: the phases of a gang, from its transition table, and the architecture."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape

from yarnam.core.gang.transitions import ROWS
from yarnam.core.model.job_status import FINAL_PHASES, RECOVERY_POINTS, Phase

BOX_W, BOX_H = 116, 34
INK, LINE, FILL = "#1f2328", "#57606a", "#ddf4ff"

AT = {
    Phase.PENDING: (20, 110), Phase.ACQUIRING: (190, 110), Phase.CHECKING: (360, 110),
    Phase.STAGING: (530, 110), Phase.LAUNCHING: (700, 110), Phase.RUNNING: (870, 110),
    Phase.BACKING_OFF: (190, 230), Phase.REPLACING: (870, 230), Phase.STOPPING: (530, 230),
    Phase.SUSPENDED: (360, 320), Phase.STORING: (700, 320), Phase.SUCCEEDED: (870, 320),
    Phase.FAILED: (530, 400), Phase.CANCELLED: (700, 400),
}  # fmt: skip
"""The upper left corner of each phase's box."""

PATH = (
    Phase.PENDING, Phase.ACQUIRING, Phase.CHECKING, Phase.STAGING, Phase.LAUNCHING, Phase.RUNNING,
    Phase.STOPPING, Phase.STORING, Phase.SUCCEEDED,
)  # fmt: skip
"""The way of a job that succeeds, drawn bold."""


LEGEND = (
    "Bold: the way of a job that succeeds. Double border: where a new ApplicationMaster continues. "
    "Not drawn: a cancel ends every phase."
)


def diagrams() -> dict[str, str]:
    """By the names of their files."""
    return {"phases.svg": phases_picture(), "architecture.svg": architecture_picture()}


def _edges() -> list[tuple[Phase, Phase]]:
    """Each pair of phases between which some row of the table leads, ends of a job excepted."""
    found = {
        (phase, to): None
        for phase, rows in ROWS.items()
        for row in rows
        for to in row.to
        if to is not phase and (to not in FINAL_PHASES or phase in {Phase.STOPPING, Phase.STORING})
    }
    return list(found)


def phases_picture() -> str:
    parts = [*_start(1010, 476, "The phases of a gang")]
    for source, to in sorted(_edges(), key=lambda edge: _is_on_path(*edge)):
        parts.append(_arrow(AT[source], AT[to], is_bold=_is_on_path(source, to)))
    for phase, (x, y) in AT.items():
        fill = "#dafbe1" if phase in FINAL_PHASES else FILL
        parts.extend(_box(x, y, BOX_W, BOX_H, [phase.value], fill, phase in RECOVERY_POINTS))
    parts.append(_text(20, 458, LEGEND))
    return "\n".join([*parts, "</svg>", ""])


def _is_on_path(source: Phase, to: Phase) -> bool:
    return (source, to) in set(itertools.pairwise(PATH))


BOXES = (
    (40, 110, 180, 76, "yarnam submit, watch,|logs, kill|or the Python client"),
    (
        40,
        230,
        180,
        120,
        "checks the spec, plans|the placement, ships|code and data",
    ),
    (300, 110, 190, 60, "ResourceManager|(Fair Scheduler)"),
    (300, 216, 190, 92, "ApplicationMaster|inbox → step() → actions,|journal before action"),
    (300, 334, 190, 40, "ZooKeeper: wait queue"),
    (570, 110, 160, 92, "agent in container 1|one process per GPU"),
    (760, 110, 160, 92, "agent in container n|one process per GPU"),
    (570, 290, 350, 60, "HDFS: code, data, checkpoints,|journals, records, blacklist"),
)
"""The boxes of the architecture: left, top, width, height, lines."""


def architecture_picture() -> str:
    parts = [*_start(960, 420, "How yarnam runs a job")]
    parts.extend(_group(20, 60, 220, 330, "Your machine"))
    parts.extend(_group(270, 60, 670, 330, "YARN cluster"))
    arrows = [
        ((220, 140), (300, 140), "REST"), ((395, 170), (395, 216), "launches, grants"),
        ((220, 262), (300, 262), "gRPC"), ((490, 240), (570, 170), "mutual TLS"),
        ((490, 256), (760, 190), ""), ((490, 290), (570, 318), "journal"),
        ((395, 308), (395, 334), ""), ((650, 202), (650, 290), "data, checkpoints"),
        ((840, 202), (840, 290), ""),
    ]  # fmt: skip
    for x, y, width, height, words in BOXES:
        lines = words.split("|")
        parts.extend(_box(x, y, width, height, lines, FILL, is_double=False))
    for start, end, words in arrows:
        parts.append(_line(start, end, is_bold=False))
        if words:
            parts.append(
                _text((start[0] + end[0]) // 2 + 8, (start[1] + end[1]) // 2 - 5, words, 11)
            )
    return "\n".join([*parts, "</svg>", ""])


# ---- shapes --------------------------------------------------------------------------------------


def _start(width: int, height: int, title: str) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="13" fill="{INK}"><title>{escape(title)}</title>'
    )
    yield f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
    for name, colour in (("bold", INK), ("thin", LINE)):
        yield (
            f'<defs><marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
            "</defs>"
        )
    yield _text(20, 36, title, 18)


def _box(
    x: int, y: int, width: int, height: int, lines: Iterable[str], fill: str, is_double: bool
) -> Iterator[str]:
    yield (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" '
        f'stroke="{LINE}"/>'
    )
    if is_double:
        yield (
            f'<rect x="{x + 3}" y="{y + 3}" width="{width - 6}" height="{height - 6}" rx="4" '
            f'fill="none" stroke="{LINE}"/>'
        )
    shown = list(lines)
    first = y + height // 2 + 5 - 9 * (len(shown) - 1)
    for number, line in enumerate(shown):
        yield (
            f'<text x="{x + width // 2}" y="{first + 18 * number}" text-anchor="middle">'
            f"{escape(line)}</text>"
        )


def _group(x: int, y: int, width: int, height: int, title: str) -> Iterator[str]:
    yield (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="#f6f8fa" '
        f'stroke="{LINE}" stroke-dasharray="4 3"/>'
    )
    yield _text(x + 14, y + 26, title, 14)


def _text(x: int, y: int, words: str, size: int = 13) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}">{escape(words)}</text>'


def _arrow(source: tuple[int, int], to: tuple[int, int], *, is_bold: bool) -> str:
    """From the border of one box to that of another."""
    (x1, y1), (x2, y2) = source, to
    if abs(y1 - y2) < BOX_H:  # beside each other
        right = x2 > x1
        start = (x1 + BOX_W if right else x1, y1 + BOX_H // 2 + (0 if right else 9))
        end = (x2 if right else x2 + BOX_W, y2 + BOX_H // 2 + (0 if right else 9))
    else:
        down, shift = y2 > y1, 8 if y2 > y1 else -8
        start = (x1 + BOX_W // 2 + shift, y1 + BOX_H if down else y1)
        end = (x2 + BOX_W // 2 + shift, y2 if down else y2 + BOX_H)
    return _line(start, end, is_bold=is_bold)


def _line(start: tuple[int, int], end: tuple[int, int], *, is_bold: bool) -> str:
    name, colour, width = ("bold", INK, 2.2) if is_bold else ("thin", LINE, 0.9)
    return (
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{colour}" '
        f'stroke-width="{width}" marker-end="url(#{name})"/>'
    )
