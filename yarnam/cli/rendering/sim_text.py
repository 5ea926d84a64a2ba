"""Figures of simulated policies: as a table, as plain values, and as a picture (SVG)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import log10
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
        if one.report.unfinished:
            yield f"{one.name}: {one.report.unfinished:,} jobs never ended."


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
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#1f2328">'
    )
    parts = [
        head,
        f"<title>{_safe(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(12, 22, title, 'font-size="14" font-weight="bold"'),
    ]
    parts.extend(_distribution(found, "Waits", "waits", 0))
    parts.extend(_distribution(found, "Completion times (JCT)", "jcts", 1))
    parts.extend(_usage(found, 2))
    for number, one in enumerate(found):
        y = _TOP + _HEIGHT + 44 + 18 * number
        parts.append(
            f'<rect x="{_LEFT}" y="{y - 10}" width="12" height="12" fill="{_of(number)}"/>'
        )
        parts.append(_text(_LEFT + 18, y, one.name))
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
    for decade in range(int(decades) + 1):
        x = left + _WIDTH * decade / decades
        yield _text(int(x) - 8, _TOP + _HEIGHT + 16, duration(10.0**decade))
    for number, ordered in enumerate(series):
        points = []
        for step in range(_STEPS + 1 if ordered else 0):
            at = min(len(ordered) - 1, step * len(ordered) // _STEPS)
            x = left + _WIDTH * log10(max(1.0, ordered[at])) / decades
            points.append(f"{x:.1f},{_TOP + _HEIGHT * (1 - step / _STEPS):.1f}")
        yield _curve(points, number)


def _usage(found: Sequence[PolicyFigures], panel: int) -> Iterator[str]:
    curves = [one.figures.usage.points for one in found]
    end_s = max((points[-1][0] for points in curves if points), default=1.0) or 1.0
    most = max((used for points in curves for _, used in points), default=1) or 1
    left = _left(panel)
    yield from _frame(left, f"GPUs in use over time, of at most {most:,}")
    yield _text(left + _WIDTH - 40, _TOP + _HEIGHT + 16, duration(end_s))
    for number, points in enumerate(curves):
        every = max(1, len(points) // (2 * _STEPS))
        yield _curve(
            [
                f"{left + _WIDTH * at_s / end_s:.1f},{_TOP + _HEIGHT * (1 - used / most):.1f}"
                for at_s, used in points[::every]
            ],
            number,
        )


def _frame(left: int, title: str) -> Iterator[str]:
    yield _text(left, _TOP - 12, title, 'font-weight="bold"')
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


def _text(x: int, y: int, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" {more}>{_safe(text)}</text>'


def _safe(text: str) -> str:
    return escape(printable(text))
