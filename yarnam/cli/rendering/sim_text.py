"""Figures of simulated policies: as a table, as plain values, and as a picture (SVG)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from math import floor, log10
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from yarnam.cli.rendering.console import Line, table
from yarnam.core.model.printable import duration, printable

if TYPE_CHECKING:
    from yarnam.sim.ideal.policy_comparison import Estimate, PolicyFigures

_SHOWN = (
    ("JCT MEAN", "jct_mean_s"),
    ("P50", "jct_p50_s"),
    ("P99", "jct_p99_s"),
    ("WAIT MEAN", "wait_mean_s"),
    ("P99", "wait_p99_s"),
    ("SLOWDOWN", "slowdown_mean"),
    ("MAKESPAN", "makespan_s"),
    ("USED", "used_share"),
)


def policy_lines(found: Sequence[PolicyFigures]) -> Iterator[Line]:
    """One row for each policy."""
    rows = [
        (
            one.name,
            *(_cell(figure, one.estimates[figure]) for _, figure in _SHOWN),
            f"{one.report.suspensions:,}",
            f"{one.report.resizes:,}",
        )
        for one in found
    ]
    headings = (heading for heading, _ in _SHOWN)
    yield from table(("POLICY", *headings, "SUSPENDED", "RESIZED"), rows)
    for one in found:
        report = one.report
        if report.stopped_at_s is not None:
            # The model of YARN counts events, which say nothing to a reader.
            decided = f"after {report.decisions:,} decisions, " if report.decisions else ""
            yield (
                f"{one.name}: stopped {decided}"
                f"{duration(report.stopped_at_s)} after the first submission: "
                f"{report.unfinished:,} jobs had not ended."
            )
        elif report.unfinished:
            yield f"{one.name}: {report.unfinished:,} jobs never ended."


def policy_plain(found: Sequence[PolicyFigures]) -> list[dict[str, Any]]:
    """For ``--json``."""
    return [
        {
            **asdict(one.report),
            "estimates": {name: asdict(value) for name, value in one.estimates.items()},
        }
        for one in found
    ]


def _cell(figure: str, value: Estimate) -> str:
    if figure.endswith("_s"):
        off = f" ±{duration(value.half)}" if value.half else ""
        return f"{duration(value.mean)}{off}"
    if figure.endswith("_share"):
        return f"{value.mean:.1%}"
    return f"{value.mean:,.1f}" + (f" ±{value.half:,.1f}" if value.half else "")


# ---- the picture ---------------------------------------------------------------------------------

_COLOURS = (
    "#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#57606a", "#0550ae",
    "#953800", "#116329",
)  # fmt: skip
_WIDTH, _HEIGHT, _LEFT, _TOP = 420, 240, 60, 70
_STEPS = 200
"""Points of a curve."""


def policy_svg(found: Sequence[PolicyFigures], title: str) -> str:
    """Three panels: distributions of waits and of completion times, and GPUs in use over time."""
    width = 3 * (_WIDTH + _LEFT) + 24
    height = _TOP + _HEIGHT + 40 + 18 * len(found)
    parts = svg_start(width, height, title)
    parts.extend(_distribution(found, "Waits", "waits", 0))
    parts.extend(_distribution(found, "Completion times (JCT)", "jcts", 1))
    parts.extend(_usage(found, 2))
    for number, one in enumerate(found):
        y = _TOP + _HEIGHT + 44 + 18 * number
        parts.append(
            f'<rect x="{_LEFT}" y="{y - 10}" width="12" height="12" fill="{_of(number)}"/>'
        )
        parts.append(svg_text(_LEFT + 18, y, one.name))
    return "\n".join([*parts, "</svg>", ""])


def _distribution(
    found: Sequence[PolicyFigures], title: str, values: str, panel: int
) -> Iterator[str]:
    """The share of jobs with at most so much, on a logarithmic axis from one second."""
    series = [sorted(getattr(one.figures, values)) for one in found]
    most = max((one[-1] for one in series if one), default=1.0)
    decades = max(1.0, log10(max(10.0, most)))
    left = _left(panel)
    yield from _frame(left, f"{title}: share of the jobs with at most so much")
    yield from _marks_up(left, [(share / 4, f"{share / 4:.0%}") for share in range(5)])
    marks = [(decade / decades, duration(10.0**decade)) for decade in range(int(decades) + 1)]
    yield from _marks_along(left, marks)
    for number, ordered in enumerate(series):
        points = []
        for step in range(_STEPS + 1 if ordered else 0):
            at = min(len(ordered) - 1, step * len(ordered) // _STEPS)
            x = left + _WIDTH * log10(max(1.0, ordered[at])) / decades
            points.append(f"{x:.1f},{_TOP + _HEIGHT * (1 - step / _STEPS):.1f}")
        yield _curve(points, number)


def _usage(found: Sequence[PolicyFigures], panel: int) -> Iterator[str]:
    """Means over equal parts of the time."""
    curves = [one.figures.usage.means(_STEPS) for one in found]
    end_s = max((points[-1][0] for points in curves if points), default=1.0) or 1.0
    most = max((used for points in curves for _, used in points), default=1.0) or 1.0
    every, every_s = _round_step(most), _round_step(end_s)
    left = _left(panel)
    yield from _frame(left, "GPUs in use over time")
    yield from _marks_up(
        left, [(n * every / most, f"{n * every:g}") for n in range(int(most / every) + 1)]
    )
    yield from _marks_along(
        left,
        [(n * every_s / end_s, duration(n * every_s)) for n in range(int(end_s / every_s) + 1)],
    )
    for number, points in enumerate(curves):
        corners: list[str] = []
        before = 0.0
        for at_s, used in points:
            x = left + _WIDTH * at_s / end_s
            corners.append(f"{x:.1f},{_TOP + _HEIGHT * (1 - before / most):.1f}")
            corners.append(f"{x:.1f},{_TOP + _HEIGHT * (1 - used / most):.1f}")
            before = used
        yield _curve(corners, number)


def _round_step(most: float) -> float:
    """1, 2 or 5 times a power of ten: from three to six marks up to ``most``."""
    power = 10.0 ** floor(log10(most / 3))
    return max(step * power for step in (1, 2, 5) if step * power <= most / 3)


def _marks_along(left: int, marks: Iterable[tuple[float, str]]) -> Iterator[str]:
    """On the axis below, at these parts of its length."""
    bottom = _TOP + _HEIGHT
    for part, text in marks:
        x = left + _WIDTH * part
        yield _svg_line(x, bottom, x, bottom + 4)
        yield svg_text(int(x), bottom + 18, text, 'text-anchor="middle"')


def _marks_up(left: int, marks: Iterable[tuple[float, str]]) -> Iterator[str]:
    """On the axis at the left."""
    for part, text in marks:
        y = _TOP + _HEIGHT * (1 - part)
        yield _svg_line(left - 4, y, left, y)
        yield svg_text(left - 7, int(y) + 4, text, 'text-anchor="end"')


def _svg_line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#57606a"/>'


def _frame(left: int, title: str) -> Iterator[str]:
    yield svg_text(left, _TOP - 12, title, 'font-weight="bold"')
    yield (
        f'<rect x="{left}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
        'stroke="#d0d7de"/>'
    )


def _curve(points: Sequence[str], number: int) -> str:
    return (
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{_of(number)}" '
        'stroke-width="1.5"/>'
    )


def _left(panel: int) -> int:
    return _LEFT + panel * (_WIDTH + _LEFT)


def _of(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def svg_start(width: int, height: int, title: str) -> list[str]:
    """The first elements of a picture: its frame, its title and a white ground."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#1f2328">'
    )
    return [
        head,
        f"<title>{escape(printable(title))}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        svg_text(12, 22, title, 'font-size="14" font-weight="bold"'),
    ]


def svg_text(x: int, y: int, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" {more}>{escape(printable(text))}</text>'
