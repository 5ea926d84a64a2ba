"""Many seeds, loads and shares of declared jobs: the waits with tickets beside those without and
beside the central scheduler's.

    python -m tests.benchmarks.turns_sweep --seeds 1-10 --loads 0.9,1.5,2 --declared 0,0.5,1

One run after the other, in one process. What a run gave is kept (``--cache``) under a hash of the
simulator's and the core's sources, so a sweep that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yarnam
from yarnam.sim import Mode, Outcome, RmSettings, SimSettings, WorkloadSettings, simulate, workload
from yarnam.sim.report import FLOOR_S, idle_share

CACHE = Path("build/turns")


@dataclass(frozen=True, slots=True)
class Waits:
    """Of one run: seconds, and the share of the granted GPU time that was held idle."""

    mean_s: float
    longest_s: float
    idle_share: float


@dataclass(frozen=True, slots=True)
class Row:
    """One seed: the same jobs, three times."""

    seed: int
    tickets: Waits
    jitter: Waits
    central: Waits

    @property
    def mean_ratio(self) -> float:
        """Mean wait with tickets, divided by that without; both at least ``FLOOR_S``."""
        return max(FLOOR_S, self.tickets.mean_s) / max(FLOOR_S, self.jitter.mean_s)

    @property
    def longest_ratio(self) -> float:
        """Longest wait with tickets, divided by the central scheduler's; both floored."""
        return max(FLOOR_S, self.tickets.longest_s) / max(FLOOR_S, self.central.longest_s)


def sweep(load: float, declared: float, seeds: Iterable[int], cache: Path | None) -> list[Row]:
    """Only tickets use what is declared: the other two are run once for each seed and load."""
    return [
        Row(
            seed,
            _run(Mode.TICKETS, load, declared, seed, cache),
            _run(Mode.JITTER, load, 0.5, seed, cache),
            _run(Mode.CENTRAL, load, 0.5, seed, cache),
        )
        for seed in seeds
    ]


def table(load: float, declared: float, rows: Sequence[Row]) -> str:
    """Geometric means of the ratios, the worst, and on how many seeds a ratio is above 1."""
    lines = [f"load {load:g}, {declared:.0%} declared"]
    for row in rows:
        waits = row.tickets
        lines.append(
            f"  seed {row.seed:>3}: mean {waits.mean_s:6.0f} s ({row.mean_ratio:.2f} x jitter's), "
            f"longest {waits.longest_s:6.0f} s ({row.longest_ratio:.2f} x central's), "
            f"idle held {waits.idle_share:.2%}"
        )
    lines.append("  " + _summary("mean / jitter", [row.mean_ratio for row in rows]))
    lines.append("  " + _summary("longest / central", [row.longest_ratio for row in rows]))
    return "\n".join(lines)


def _summary(name: str, ratios: Sequence[float]) -> str:
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    above = sum(ratio > 1.0 for ratio in ratios)
    return f"{name}: {mean:.2f}, at worst {max(ratios):.2f}, above 1 on {above} of {len(ratios)}"


def _run(mode: Mode, load: float, declared: float, seed: int, cache: Path | None) -> Waits:
    kept = cache / f"{_sources()}-{mode.name}-{load:g}-{declared:g}-{seed}.json" if cache else None
    if kept and kept.exists():
        return Waits(**json.loads(kept.read_text()))
    rm = RmSettings()
    given = workload(WorkloadSettings(seed=seed, load=load, declared=declared), rm)
    waits = _waits(simulate(given, SimSettings(mode, seed=seed, rm=rm)))
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(waits)))
    return waits


def _waits(outcome: Outcome) -> Waits:
    waits = [math.inf if one.wait_s is None else one.wait_s for one in outcome.records]
    return Waits(sum(waits) / len(waits), max(waits), idle_share(outcome))


def _sources() -> str:
    root = Path(yarnam.__file__).parent
    digest = hashlib.sha256()
    for path in sorted((*root.glob("core/**/*.py"), *root.glob("sim/**/*.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def _seeds(text: str) -> list[int]:
    """``3,7`` or ``1-10``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--seeds", type=_seeds, default=_seeds("1-10"))
    parser.add_argument("--loads", type=_numbers, default=[0.9, 1.5, 2.0])
    parser.add_argument("--declared", type=_numbers, default=[0.0, 0.5, 1.0])
    parser.add_argument("--cache", type=Path, default=CACHE)
    given = parser.parse_args()
    for load in given.loads:
        for declared in given.declared:
            rows = sweep(load, declared, given.seeds, given.cache)
            print(table(load, declared, rows), flush=True)


if __name__ == "__main__":
    main()
