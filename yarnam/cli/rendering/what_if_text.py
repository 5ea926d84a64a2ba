"""Two allocation files side by side: as text, as plain values, and as a picture (SVG)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from yarnam.cli.rendering.console import Line, table
from yarnam.cli.rendering.sim_text import svg_start, svg_text
from yarnam.core.model.printable import duration

if TYPE_CHECKING:
    from yarnam.client.queues.what_if import WhatIf
    from yarnam.sim.what_if.queue_figures import QueueFigures


class _Figure(NamedTuple):
    heading: str
    title: str
    """The title of its part of the chart."""
    value: Callable[[QueueFigures], float]
    shown: Callable[[float], str]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


FIGURES = (
    _Figure("WAIT MEAN", "Mean wait", lambda one: one.wait_mean_s, duration),
    _Figure("P50", "Wait, 50th percentile", lambda one: one.wait_p50_s, duration),
    _Figure("P90", "Wait, 90th percentile", lambda one: one.wait_p90_s, duration),
    _Figure("MAX", "Longest wait", lambda one: one.wait_max_s, duration),
    _Figure("SHARE", "Share of the GPU time", lambda one: one.share, _percent),
    _Figure("GPU HOURS", "GPU hours", lambda one: one.gpu_hours, _count),
    _Figure("PREEMPTED", "Gangs preempted", lambda one: one.preemptions, _count),
)

DRAWN = ("WAIT MEAN", "P90", "SHARE", "PREEMPTED")
"""The figures in the picture."""


def pairs(found: WhatIf) -> list[tuple[str, QueueFigures | None, QueueFigures | None]]:
    """Each queue with its figures before and after; ``None`` means it had no job then."""
    before = {one.queue: one for one in found.before}
    after = {one.queue: one for one in found.after}
    last = found.before[-1].queue
    names = [*sorted({*before, *after} - {last}), last]
    return [(name, before.get(name), after.get(name)) for name in names]


def what_if_lines(found: WhatIf, before: str, after: str) -> Iterator[Line]:
    """``before`` and ``after`` name the files."""
    yield (
        f"{found.jobs:,} jobs, submitted within {duration(found.span_s)}, simulated on "
        f"{found.gpus:,} GPUs"
    )
    yield f"Each figure: with {before} -> with {after}"
    rows: list[tuple[str, ...]] = []
    for name, old, new in pairs(found):
        one = old or new
        jobs = _count(one.jobs) if one is not None else "0"
        rows.append((name, jobs, *(_cell(figure, old, new) for figure in FIGURES)))
    yield from table(("QUEUE", "JOBS", *(figure.heading for figure in FIGURES)), rows)
    yield from _not_run(found, before, after)


def _cell(figure: _Figure, old: QueueFigures | None, new: QueueFigures | None) -> str:
    left, right = ("-" if one is None else figure.shown(figure.value(one)) for one in (old, new))
    return left if left == right else f"{left} -> {right}"


def _not_run(found: WhatIf, before: str, after: str) -> Iterator[str]:
    for file, figures in ((before, found.before), (after, found.after)):
        for one in figures[:-1]:
            if one.refused:
                yield (
                    f"With {file}, {one.refused:,} jobs of {one.queue} could not be submitted: "
                    "the queue takes no jobs, or no node can hold one of their tasks."
                )
            if one.unstarted:
                yield f"With {file}, {one.unstarted:,} jobs of {one.queue} never started."


def what_if_plain(found: WhatIf) -> dict[str, Any]:
    """For ``--json``."""
    return {
        "jobs": found.jobs,
        "gpus": found.gpus,
        "span_s": found.span_s,
        "queues": [
            {
                "queue": name,
                "before": None if old is None else asdict(old),
                "after": None if new is None else asdict(new),
            }
            for name, old, new in pairs(found)
        ],
    }


# ---- the picture ---------------------------------------------------------------------------------

_LEFT, _PANEL, _ROW, _TOP = 190, 250, 44, 76
_CHAR = 7
"""Width of a character, for names: Helvetica of 12 pixels has 6 in the mean."""
_BAR, _BAR_WIDTH = 15, 150
_COLOURS = ("#8a94a6", "#1f6feb")


def what_if_svg(found: WhatIf, before: str, after: str) -> str:
    """Two bars for each queue and figure, one above the other, each with its value."""
    rows = pairs(found)
    drawn = [figure for figure in FIGURES if figure.heading in DRAWN]
    left = max(_LEFT, 24 + _CHAR * max(len(name) for name, _, _ in rows))
    width, height = left + _PANEL * len(drawn), _TOP + _ROW * len(rows) + 12
    title = f"{found.jobs:,} jobs on {found.gpus:,} GPUs: {before} and {after}"
    parts = svg_start(width, height, title)
    for number, name in enumerate((before, after)):
        at = 12 + max(300, 42 + _CHAR * len(before)) * number
        parts.append(f'<rect x="{at}" y="32" width="12" height="12" fill="{_COLOURS[number]}"/>')
        parts.append(svg_text(at + 18, 42, name))
    for row, (name, _, _) in enumerate(rows):
        parts.append(svg_text(12, _TOP + _ROW * row + 20, name))
    for column, figure in enumerate(drawn):
        parts.append(
            svg_text(left + _PANEL * column, _TOP - 12, figure.title, 'font-weight="bold"')
        )
        parts.extend(_panel(rows, figure, left + _PANEL * column))
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    rows: list[tuple[str, QueueFigures | None, QueueFigures | None]], figure: _Figure, left: int
) -> Iterator[str]:
    values = [[None if one is None else figure.value(one) for one in row[1:]] for row in rows]
    most = max((value or 0.0 for row in values for value in row), default=0.0) or 1.0
    for row, both in enumerate(values):
        for number, value in enumerate(both):
            y = _TOP + _ROW * row + number * (_BAR + 2)
            width = max(1.0, _BAR_WIDTH * (value or 0.0) / most)
            shown = "-" if value is None else figure.shown(value)
            yield (
                f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{_BAR}" '
                f'fill="{_COLOURS[number]}"/>'
            )
            yield svg_text(int(left + width + 5), y + 12, shown)
