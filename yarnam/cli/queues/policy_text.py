"""Policies of queues, and what they decide for jobs, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from yarnam.cli.rendering.console import Line, table
from yarnam.core.model.job_status import JobState, JobStatus
from yarnam.core.model.printable import MOST_SHOWN_AT_S, within
from yarnam.core.policies.cells import Cells, QueueCells
from yarnam.core.policies.chosen_policy import QueuePolicy, active_policy
from yarnam.core.policies.policy_registry import NAMES, policy_named
from yarnam.wire.codec import to_plain

LONGEST = 60
"""Characters of one value; a list of samples has thousands."""


def words(chosen: QueuePolicy) -> str:
    """``tiresias limits=3600 (by ann, 2026-11-25 10:00)``."""
    if chosen.trouble:
        return f"not readable: {chosen.trouble}"
    given = "".join(f" {key}={_short(value)}" for key, value in chosen.settings)
    at = datetime.fromtimestamp(within(chosen.at_s, MOST_SHOWN_AT_S), timezone.utc).astimezone()
    when = f"{at:%Y-%m-%d %H:%M:%S}" if chosen.at_s else ""
    who = ", ".join(filter(None, [f"by {chosen.by}" if chosen.by else "", when]))
    return f"{chosen.policy}{given}" + (f" ({who})" if who else "")


def list_lines(chosen: Mapping[str, QueuePolicy]) -> Iterator[Line]:
    rows = []
    for name in NAMES:
        policy = policy_named(name)
        acts = (("suspends", policy.suspends), ("resizes", policy.resizes))
        does = [word for word, is_so in acts if is_so]
        rows.append((name, ", ".join(does), policy.summary))
    yield from table(("POLICY", "DOES", "RULE"), rows)
    if chosen:
        yield ""
        yield from table(
            ("QUEUE", "CHOSEN"), [(queue, words(one)) for queue, one in chosen.items()]
        )


def list_as_plain(chosen: Mapping[str, QueuePolicy]) -> dict[str, Any]:
    return {
        "policies": [
            {
                "name": name,
                "summary": policy_named(name).summary,
                "suspends": policy_named(name).suspends,
                "resizes": policy_named(name).resizes,
                "settings": [to_plain(one) for one in policy_named(name).settings],
            }
            for name in NAMES
        ],
        "queues": [as_plain(queue, one) for queue, one in chosen.items()],
    }


def policy_lines(queue: str, chosen: QueuePolicy) -> Iterator[Line]:
    if not chosen.version:
        yield f"{queue}: nothing is chosen; its jobs go by {chosen.policy}, each by itself"
        return
    yield f"{queue}: {words(chosen)}"
    yield f"version {chosen.version}"
    found = active_policy(chosen)
    if found is None:
        return
    if found.policy is None:
        yield f"its jobs go by arrival: {found.trouble}"
        return
    if found.policy.settings:
        given = dict(chosen.settings)
        yield ""
        yield from table(
            ("SETTING", "VALUE", "UNIT", "MEANING"),
            [
                (one.name, _short(given.get(one.name, one.shown)), one.unit, one.meaning)
                for one in found.policy.settings
            ],
        )


def as_plain(queue: str, chosen: QueuePolicy) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(chosen)
    return {"queue": queue, **plain, "settings": dict(chosen.settings)}


def explained_lines(status: JobStatus) -> Iterator[Line]:
    found = status.policy
    yield f"{status.application} ({status.name}) in {status.queue}: {status.state.value}"
    if found is None and status.state is JobState.QUEUED:
        yield "its ApplicationMaster, which reads the policy of its queue, has not started yet"
        return
    if found is None:
        yield "nothing is chosen for its queue, so it acts by itself (smallest-first)"
        if status.wait_queue is not None:
            yield status.reason
        return
    yield f"policy: {found.policy}, version {found.version}"
    if found.trouble:
        yield f"trouble: {found.trouble}"
    if not found.act:
        yield "its ApplicationMaster has not looked yet"
    else:
        on = f" on {found.gpus} GPUs" if found.gpus else ""
        yield f"{found.act}{on}, rank {found.rank}: {found.why}"
    yield f"attained service: {found.service_gpu_s:.0f} GPU-s"
    cost = f"{found.pause_cost_s:.1f} s" if found.pause_cost_s else "not measured yet"
    yield f"a suspend and start: {cost}"
    if not found.can_suspend:
        yield "it is never suspended: it has saved no checkpoint, or its spec names no directory"


def explained_as_plain(status: JobStatus) -> dict[str, Any]:
    return {
        "application": status.application,
        "queue": status.queue,
        "state": status.state.value,
        "policy": None if status.policy is None else to_plain(status.policy),
    }


def cells_lines(found: Cells) -> Iterator[Line]:
    yield (
        f"{found.nodes} whole nodes of {found.node_gpus} GPUs, {found.free} of them free; the "
        f"quotas still cover {found.covered}"
    )
    yield ""
    yield from table(
        ("QUEUE", "QUOTA", "ITS OWN", "FREE FOR IT", "LACKS"),
        [
            (one.queue, str(one.quota), str(one.own), str(one.free), str(one.lacks or "-"))
            for one in found.queues
        ],
    )
    for one in found.queues:
        if one.lacks:
            yield ""
            yield from _broken_lines(one)
    if found.covered > found.free and not any(one.lacks for one in found.queues):
        yield ""
        yield (
            f"each queue could have its own, but not all together: {found.covered - found.free} "
            "nodes are missing"
        )


def _broken_lines(one: QueueCells) -> Iterator[Line]:
    if not one.broken:
        yield f"{one.queue}: its quota of {one.quota} is more than there are nodes"
        return
    yield f"{one.queue} could have {one.lacks} more if these were not there:"
    rows = [
        (broken.node, str(use.gpus), use.job or "unknown", use.queue or "unknown")
        for broken in one.broken
        for use in broken.others
    ]
    yield from table(("NODE", "GPUS", "JOB", "ITS QUEUE"), rows)


def cells_as_plain(found: Cells) -> dict[str, Any]:
    plain: dict[str, Any] = to_plain(found)
    queues = [to_plain(one) | {"lacks": one.lacks} for one in found.queues]
    return {**plain, "is_fragmented": found.is_fragmented, "queues": queues}


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
