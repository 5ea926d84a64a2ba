"""Golden journals: the job, then every event with the actions it led to, then the last status.

One JSON value a line. ``python -m tests.golden.journals`` writes them anew; look at the
difference before it is committed, for it is a change of what the machine does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.golden.stories import STORIES
from yarnam.gang import describe, initial, policy_for, step
from yarnam.model.actions import Action
from yarnam.model.events import Event
from yarnam.model.job import JobSpec
from yarnam.wire.codec import encode, from_plain, to_plain

FOLDER = Path(__file__).parent / "journals"


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


def _line(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for story in STORIES:
        play = story()
        (FOLDER / f"{story.__name__}.jsonl").write_bytes(journal(play.spec, play.events))


if __name__ == "__main__":
    write()
