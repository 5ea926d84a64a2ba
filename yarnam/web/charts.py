"""Shapes of charts, as SVG paths in a box of ``WIDTH`` by ``HEIGHT``. Labels are HTML around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from yarnam.core.accounting.use_over_time import UsePoint
from yarnam.core.model.job_status import AttemptRecord, Holding

WIDTH = 1000
HEIGHT = 200


@dataclass(frozen=True, slots=True)
class Chart:
    """``path``: the ``d`` of an SVG path. Times in seconds since the epoch."""

    path: str
    from_s: float
    to_s: float
    lowest: float
    highest: float
    last: float


@dataclass(frozen=True, slots=True)
class Band:
    """An attempt in the box: from ``x``, ``width`` wide."""

    attempt: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class GangTimeline:
    """The containers that a job held over time; ``bands`` are its attempts, ``most`` the highest
    count."""

    path: str
    bands: tuple[Band, ...]
    from_s: float
    to_s: float
    most: int


@dataclass(frozen=True, slots=True)
class UseChart:
    """A queue's GPUs over time: areas of those used and of all held (those in vain stand out
    behind), and a line of those waited for."""

    name: str
    used: str
    held: str
    waiting: str
    total_y: float | None
    """Where all GPUs of the cluster are; ``None`` if unknown."""
    from_s: float
    to_s: float
    most: float
    last: UsePoint
    mean_used: float
    mean_in_vain: float
    mean_waiting: float


def line_chart(points: Sequence[tuple[float, float]]) -> Chart | None:
    """A line through (time, value); ``None`` with fewer than two points, or all at one time."""
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    times = [at_s for at_s, _ in points]
    values = [value for _, value in points]
    lowest, highest = min(values), max(values)
    rows = [(_x(at_s, times[0], times[-1]), _y(value, lowest, highest)) for at_s, value in points]
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in rows)
    return Chart(path, times[0], times[-1], lowest, highest, values[-1])


def use_chart(name: str, points: Sequence[UsePoint], step_s: float, total: int | None) -> UseChart:
    """Steps of the GPUs used, on them those held in vain, and a line of those waited for."""
    held = [point.used + point.held_in_vain for point in points]
    most = max([1.0, float(total or 0), *held, *(point.waiting for point in points)])
    from_s, to_s = points[0].at_s, points[-1].at_s + step_s
    edges = [_x(point.at_s, from_s, to_s) for point in points] + [float(WIDTH)]

    def steps(values: Sequence[float]) -> str:
        parts = [
            f"{left:.1f} {_y(value, 0.0, most):.1f} L{right:.1f} {_y(value, 0.0, most):.1f}"
            for left, right, value in zip(edges, edges[1:], values, strict=False)
        ]
        return " L".join(parts)

    below = f"L{WIDTH} {HEIGHT} L0 {HEIGHT} Z"
    return UseChart(
        name,
        f"M{steps([point.used for point in points])} {below}",
        f"M{steps(held)} {below}",
        f"M{steps([point.waiting for point in points])}",
        None if total is None else round(_y(total, 0.0, most), 1),
        from_s,
        to_s,
        most,
        points[-1],
        *(
            sum(getattr(point, kind) for point in points) / len(points)
            for kind in ("used", "held_in_vain", "waiting")
        ),
    )


def gang_timeline(
    holdings: Sequence[Holding], attempts: Sequence[AttemptRecord], from_s: float, to_s: float
) -> GangTimeline | None:
    """Steps of the number of containers held; ``None`` if nothing has happened yet."""
    most = max(
        [one.containers for one in holdings] + [one.asked + one.kept for one in attempts],
        default=0,
    )
    if not most or to_s <= from_s:
        return None
    path, count = f"M0 {HEIGHT}", 0
    for one in holdings:
        x = _x(one.at_s, from_s, to_s)
        path += f" L{x:.1f} {_y(count, 0, most):.1f} L{x:.1f} {_y(one.containers, 0, most):.1f}"
        count = one.containers
    path += f" L{WIDTH} {_y(count, 0, most):.1f} L{WIDTH} {HEIGHT} Z"
    bands = []
    for record in attempts:
        x = _x(record.started_at_s, from_s, to_s)
        end = _x(to_s if record.ended_at_s is None else record.ended_at_s, from_s, to_s)
        bands.append(Band(record.attempt, round(x, 1), round(max(1.0, end - x), 1)))
    return GangTimeline(path, tuple(bands), from_s, to_s, most)


def _x(at_s: float, from_s: float, to_s: float) -> float:
    return WIDTH * min(1.0, max(0.0, (at_s - from_s) / (to_s - from_s)))


def _y(value: float, lowest: float, highest: float) -> float:
    if highest <= lowest:
        return HEIGHT / 2
    return HEIGHT - HEIGHT * (value - lowest) / (highest - lowest)
