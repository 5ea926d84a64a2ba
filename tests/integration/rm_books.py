"""Who held which GPUs when, by the ResourceManager's own audit log: nothing here asks yarnam."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_LINE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) .*RMAuditLogger.*"
    r"OPERATION=AM (?P<what>Allocated|Released) Container\t.*"
    r"APPID=(?P<app>application_\d+_\d+).*CONTAINERID=(?P<container>container_\w+)"
    r"(?:.*yarn\.io/gpu: (?P<gpus>\d+))?"
)


@dataclass(frozen=True, slots=True)
class Held:
    """One container with GPUs, from the RM's grant to its end. Times in seconds since the epoch."""

    application: str
    container: str
    gpus: int
    from_s: float
    until_s: float | None
    """None: by the log it has not ended."""


@dataclass(frozen=True, slots=True)
class Shares:
    """GPU-seconds of some gangs, and how many of them while the gang was not complete."""

    held_gpu_s: float
    incomplete_gpu_s: float

    @property
    def incomplete_share(self) -> float:
        return self.incomplete_gpu_s / self.held_gpu_s if self.held_gpu_s else 0.0

    def __str__(self) -> str:
        return (
            f"{self.held_gpu_s:.0f} GPU-seconds held, {self.incomplete_gpu_s:.0f} of them "
            f"({self.incomplete_share:.1%}) by gangs that were not complete"
        )


def read_books(*logs: Path) -> tuple[Held, ...]:
    """All containers with GPUs in the logs (of an RM's lives, one after another), by their grant.
    What a restarted RM has taken over is not granted again, and what ended while there was none may
    have no end here."""
    granted: dict[str, Held] = {}
    rolled = [sorted(log.parent.glob(f"{log.name}*"), reverse=True) for log in logs]
    for path in itertools.chain.from_iterable(rolled):  # rm.log.1, then rm.log
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                found = _LINE.match(line)
                if found is None:
                    continue
                name, at_s = found["container"], seconds_of(found["at"])
                if found["what"] == "Allocated" and found["gpus"]:
                    gpus = int(found["gpus"])
                    granted[name] = Held(found["app"], name, gpus, at_s, None)
                elif found["what"] == "Released" and name in granted:
                    old = granted[name]
                    granted[name] = Held(old.application, name, old.gpus, old.from_s, at_s)
    return tuple(sorted(granted.values(), key=lambda held: held.from_s))


def seconds_of(text: str) -> float:
    """A time of log4j's ISO8601 format, which is the machine's local time."""
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()


def held_at(books: Iterable[Held], application: str, at_s: float, slack_s: float = 0.0) -> int:
    """GPUs that the application had at this time; ``slack_s``: or had so shortly before."""
    return sum(
        held.gpus
        for held in books
        if held.application == application
        and held.from_s <= at_s
        and (held.until_s is None or held.until_s > at_s - slack_s)
    )


def shares(books: Iterable[Held], wanted: dict[str, int], until_s: float) -> Shares:
    """``wanted``: GPUs of the whole gang, by application. A container that has not ended counts
    until ``until_s``. After it was complete for the last time a gang gives back what it has, one
    container after another: that is not counted as waiting for the others."""
    total = partial = 0.0
    for application, whole in wanted.items():
        mine = [held for held in books if held.application == application]
        edges = sorted(
            {h.from_s for h in mine} | {min(h.until_s or until_s, until_s) for h in mine}
        )
        spans = [
            (held_at(mine, application, begin_s), end_s - begin_s)
            for begin_s, end_s in itertools.pairwise(edges)
        ]
        complete = [number for number, (gpus, _) in enumerate(spans) if gpus >= whole]
        last = complete[-1] if complete else len(spans)
        total += sum(gpus * span_s for gpus, span_s in spans)
        partial += sum(gpus * span_s for gpus, span_s in spans[:last] if gpus < whole)
    return Shares(total, partial)
