"""The all-or-none timeline: two gangs that both want more than half of the GPUs, simulated with
yarnam's admission and with a launcher that keeps what it gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from yarnam.cli.rendering.sim_text import svg_text
from yarnam.sim.sim_settings import (
    Mode,
    QueueSettings,
    RmSettings,
    SimJob,
    SimSettings,
    Workload,
    sim_spec,
)
from yarnam.sim.simulation import Outcome, simulate

TASKS, GPUS, RUN_S = 5, 8, 60.0
LIMIT_S = 180.0
QUEUE = "root.dl"
COLOURS = ("#1f6feb", "#bf3989")
LEFT, RIGHT, ROW, TOP = 74, 36, 15, 66
WIDTH = 820
SCALE = (WIDTH - LEFT - RIGHT) / LIMIT_S
PANEL = TOP + ROW * GPUS + 44


@dataclass(frozen=True)
class Bar:
    job: int
    row: int
    since_s: float
    until_s: float
    runs_s: float | None
    """When its gang's processes began to run; ``None`` if they never did."""


def outcome(mode: Mode) -> Outcome:
    """Two gangs of five tasks with one GPU each, submitted together on eight GPUs."""
    jobs = tuple(
        SimJob(number, 0.0, RUN_S, None, sim_spec(f"gang {number + 1}", QUEUE, TASKS, per_task=1))
        for number in range(2)
    )
    rm = RmSettings(nodes=2, gpus_per_node=4, nodes_per_rack=2, queues=(QueueSettings(QUEUE, 1.0),))
    return simulate(Workload(jobs), SimSettings(mode, rm=rm, limit_s=LIMIT_S))


def bars(found: Outcome) -> list[Bar]:
    """Each container of a task in the first row that is free when it is granted."""
    free_at = [0.0] * GPUS
    made = []
    for one in sorted(found.containers, key=lambda each: (each.granted_s, each.number)):
        if not one.resources.gpus:
            continue
        until_s = min(LIMIT_S, one.freed_s if one.freed_s is not None else LIMIT_S)
        row = next(n for n, free_s in enumerate(free_at) if free_s <= one.granted_s)
        free_at[row] = until_s
        stood = [at for (job, _), at in found.stood.items() if job == one.job]
        made.append(Bar(one.job, row, one.granted_s, until_s, min(stood, default=None)))
    return made


HELD = (
    '<defs><pattern id="held" width="6" height="6" patternTransform="rotate(45)" '
    'patternUnits="userSpaceOnUse"><rect width="3" height="6" fill="#ffffff" fill-opacity="0.65"/>'
    "</pattern></defs>"
)
"""Hatching, over the colour of a gang whose processes do not run."""


def _start(height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">'
    )


def timeline_picture() -> str:
    height = 2 * PANEL + 8
    background = f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>'
    parts = [_start(height), background, HELD]
    for number, (mode, title) in enumerate(
        [
            (Mode.HOLD, "A launcher that keeps what it gets: both wait for ever, 8 GPUs idle"),
            (Mode.TICKETS, "yarnam: all or none; the second gang starts when the first has ended"),
        ]
    ):
        parts.extend(_panel(outcome(mode), title, number * PANEL))
    return "\n".join([*parts, "</svg>", ""])


def _panel(found: Outcome, title: str, top: int) -> Iterator[str]:
    yield svg_text(16, top + 26, title).replace("<text ", '<text font-weight="bold" ', 1)
    for number, colour in enumerate(COLOURS):
        x = 16 + 150 * number
        yield f'<rect x="{x}" y="{top + 40}" width="12" height="12" fill="{colour}"/>'
        yield svg_text(x + 18, top + 50, f"gang {number + 1} of 5 GPUs")
    yield f'<rect x="316" y="{top + 40}" width="12" height="12" fill="#57606a"/>'
    yield f'<rect x="316" y="{top + 40}" width="12" height="12" fill="url(#held)"/>'
    yield svg_text(334, top + 50, "held, nothing runs")
    base = top + TOP
    for row in range(GPUS):
        y = base + ROW * row
        yield svg_text(16, y + 11, f"GPU {row}")
        yield f'<rect x="{LEFT}" y="{y + 1}" width="{WIDTH - LEFT - RIGHT}" height="{ROW - 2}" '
        yield 'fill="#f0f2f4"/>'
    for bar in bars(found):
        y = base + ROW * bar.row + 1
        yield _rect(bar.since_s, bar.until_s, y, COLOURS[bar.job])
        held_until_s = bar.until_s if bar.runs_s is None else bar.runs_s
        yield _rect(bar.since_s, held_until_s, y, "url(#held)")
    for at_s in range(0, int(LIMIT_S) + 1, 30):
        x = LEFT + SCALE * at_s
        yield svg_text(x - 10, base + ROW * GPUS + 16, f"{at_s} s")


def _rect(since_s: float, until_s: float, y: int, fill: str) -> str:
    x, width = LEFT + SCALE * since_s, SCALE * max(0.0, until_s - since_s)
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 2}" fill="{fill}"/>'
