"""Golden journals: the job, then every event with the actions it led to, then the last status.

One JSON value a line. ``python -m tests.golden.journals`` writes them anew; look at the
difference before it is committed, for it is a change of what the machine does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.golden.scenarios import SCENARIOS
from yarnam.core.gang import describe, initial, policy_for, step
from yarnam.core.model.actions import Action
from yarnam.core.model.events import Event
from yarnam.core.model.job_spec import JobSpec
from yarnam.wire.codec import encode, from_plain, to_plain

FOLDER = Path(__file__).parent / "journals"
VERSION_1 = Path(__file__).parent / "journals_of_version_1"
"""Written before STAGING and REPLACING were phases and some actions got other names: they still
lead to the same actions. Never written anew."""

RENAMED = {
    "LookAround": "ProbeCluster",
    "standing": "held",
    "turn": "wait_queue",
    "left_out": "excluded_files",
    "apart": "anti_affinity",
    "place": "domain",
    "seats": "extra_targets",
}
"""Names of version 1 that are others now, of actions and of fields."""

TEXTS = frozenset({"reason", "message", "hint", "outcome"})
"""What is said to people may be said better."""


def journal(job: JobSpec, events: Iterable[Event]) -> bytes:
    """Fold the events over ``step`` and write down what happened."""
    gang, policy = initial(job), policy_for(job)
    lines = [encode(job)]
    now_s = 0.0
    for event in events:
        gang, actions = step(gang, event, policy)
        now_s = event.at_s
        lines.append(
            _line({"event": to_plain(event, Event), "do": [to_plain(a, Action) for a in actions]})
        )
    lines.append(encode(describe(gang, now_s)))
    return b"\n".join(lines) + b"\n"


def replay(text: bytes) -> bytes:
    """Read a journal back and play it again."""
    first, *rest = text.splitlines()
    job = from_plain(json.loads(first), JobSpec)
    events = [from_plain(json.loads(line)["event"], Event) for line in rest[:-1]]  # type: ignore[arg-type]
    return journal(job, events)


def is_same_story(old: object, new: object) -> bool:
    """Whether a line of version 1 says what a line of today says: by today's names, without what
    is said to people and what has been added since."""
    if isinstance(old, dict) and isinstance(new, dict):
        if "doubtful" in new:  # version 1 had the job's own strikes among the suspects
            new = {**new, "suspects": [*new["suspects"], *new["doubtful"]]}
        return all(
            is_same_story(value, new.get(RENAMED.get(key, key)))
            for key, value in old.items()
            if key not in TEXTS and key != "max_attempts"  # grew with each free attempt
        )
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(is_same_story, old, new))
    return (RENAMED.get(old, old) if isinstance(old, str) else old) == new


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for story in SCENARIOS:
        play = story()
        (FOLDER / f"{story.__name__}.jsonl").write_bytes(journal(play.spec, play.events))


if __name__ == "__main__":
    write()
