"""A job's outlook in words and as plain JSON: shared by ``plan`` and ``submit --dry-run``."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from yarnam.cli.cluster_picture import picture
from yarnam.cli.describe import start_words
from yarnam.cli.output import table
from yarnam.model.ids import NodeId
from yarnam.model.placement import NoFit, PlacementPlan, Rung
from yarnam.queues.forecast import Forecast, Untold, as_status

if TYPE_CHECKING:
    from yarnam.client.outlook import Outlook

MOST_RANK_LINES = 16
"""Tasks shown at both ends of a longer list, together."""


def as_plain(found: Outlook) -> dict[str, Any]:
    """What ``--json`` shows."""
    from yarnam.client.staging import without_secrets
    from yarnam.wire.codec import to_plain

    public, _ = without_secrets(found.job)
    now: dict[str, Any] = {"fits": found.fits_now, "rungs": [], "no_fit": None}
    if isinstance(found.now, PlacementPlan):
        now["rungs"] = [to_plain(rung) for rung in found.now.rungs]
    else:
        now["no_fit"] = to_plain(found.now)
    return {
        "job": to_plain(public),
        "plan": to_plain(found.ladder),
        "now": now,
        "ranks": [to_plain(seat) for seat in found.seats],
        "forecast": _forecast_plain(found.start),
        "taken_at_s": found.snapshot.taken_at_s,
    }


def as_text(found: Outlook) -> Iterator[str]:
    """The job, the ladder, the ranks, the picture, the outlook."""
    yield from _job(found)
    yield ""
    yield "Placements, tightest first; the first that fits is asked for:"
    yield _ladder(found)
    if found.ladder.seats:
        yield f"and {len(found.ladder.seats)} single nodes, so that YARN cannot mix up the tasks"
    yield ""
    if found.fits_now:
        yield f"Ranks on rung {found.best.number} (YARN may choose other nodes of the same place):"
    else:
        yield "Ranks, if it stood on the first of them:"
    yield _ranks(found)
    yield ""
    yield from picture(found.snapshot, _mine(found))
    yield ""
    yield from _now(found)


def _job(found: Outlook) -> Iterator[str]:
    job = found.job
    yield f"{job.name}: {job.gpus} GPUs, queue {job.queue}, {job.framework.value}"
    steps = found.snapshot.steps
    for role in job.roles:
        each, taken = role.resources, steps.rounded(role.resources)
        tasks = f"{role.tasks}" if role.min_tasks is None else f"{role.min_tasks} to {role.tasks}"
        yield (
            f"  {role.name}: {tasks} x ({each.gpus} GPUs, {each.vcores} vcores, "
            f"{each.memory_mib} MiB), {role.processes_per_task} processes each"
            + (f"; YARN makes that {taken.memory_mib} MiB" * (taken.memory_mib != each.memory_mib))
            + (f"; YARN makes that {taken.vcores} vcores" * (taken.vcores != each.vcores))
        )
    if job.flexible_shape:
        yield "  the planner may cut it otherwise, with the same GPUs and shares"
    am = steps.rounded(job.am.resources)
    yield f"  ApplicationMaster: {am.vcores} vcores, {am.memory_mib} MiB"


def _ladder(found: Outlook) -> str:
    fitting = _fitting(found)
    rows = []
    for rung in found.ladder.rungs:
        sums: dict[tuple[str, int], int] = {}
        for ask in rung.asks:
            key = (ask.target.role, ask.target.resources.gpus)
            sums[key] = sums.get(key, 0) + ask.count
        asks = " + ".join(
            f"{count} x {gpus} GPUs" if gpus else f"{count} {role}"
            for (role, gpus), count in sums.items()
        )
        mark = "now" if _place(rung) in fitting else ""
        level = rung.level.name
        rows.append((str(rung.number), level, asks, f"{rung.score:.2f}", mark, rung.reason))
    return table(("RUNG", "LEVEL", "CONTAINERS", "SCORE", "FITS", "WHY"), rows)


def _fitting(found: Outlook) -> set[object]:
    if isinstance(found.now, NoFit):
        return set()
    # A gang on seats is told by where it would stand.
    return {_place(rung) for rung in found.now.rungs}


def _place(rung: Rung) -> object:
    nodes = sorted(node for ask in rung.asks for node in ask.expected_nodes)
    return rung.number, rung.level, rung.score, tuple(nodes), rung.reason


def _ranks(found: Outlook) -> str:
    rows: list[tuple[str, ...]] = [
        (
            _ranks_of(seat.first_rank, seat.processes),
            seat.task,
            seat.node,
            seat.rack,
            str(seat.gpus),
        )
        for seat in found.seats
    ]
    if len(rows) > MOST_RANK_LINES:
        half = MOST_RANK_LINES // 2
        hidden = f"({len(rows) - 2 * half} more)"
        rows = [*rows[:half], ("…", hidden, "", "", ""), *rows[-half:]]
    return table(("RANKS", "TASK", "NODE", "RACK", "GPUS"), rows)


def _ranks_of(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _mine(found: Outlook) -> dict[NodeId, int]:
    mine: dict[NodeId, int] = {}
    for seat in found.seats:
        mine[seat.node] = mine.get(seat.node, 0) + seat.gpus
    return mine if found.fits_now else {}


def _now(found: Outlook) -> Iterator[str]:
    if isinstance(found.now, PlacementPlan):
        yield (
            f"It fits now, on rung {found.best.number}. No wait for room is to be expected: YARN "
            "grants containers at its nodes' heartbeats."
        )
        if found.wait_s:
            yield f"But others come first. {_forecast_words(found.start)}"
        return
    yield f"It does not fit now: {found.now.message} ({found.now.reason.value})."
    for change in found.now.changes:
        yield f"  {change.text}"
    if not found.now.changes and found.now.hint:
        yield f"  {found.now.hint}"
    yield _forecast_words(found.start)


def _forecast_plain(start: Forecast | Untold) -> dict[str, Any]:
    """Seconds from the plan on; None: not known."""
    if isinstance(start, Untold):
        return {"wait_s": None, "reason": start.reason}
    latest_s = None if start.latest_s == inf else start.latest_s
    return {
        "wait_s": start.likely_s,
        "soonest_s": start.soonest_s,
        "latest_s": latest_s,
        "passed_until_s": start.passed_until_s,
        "reason": None,
    }


def _forecast_words(start: Forecast | Untold) -> str:
    if isinstance(start, Untold):
        return (
            f"No forecast: {start.reason}. The job would wait and look again until its gang fits."
        )
    if start.likely_s <= 0.0:
        return "No wait in line is to be expected."
    return f"It would be {start_words(as_status(start, 0.0), 0.0)}."
