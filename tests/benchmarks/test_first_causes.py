"""How often the first cause of a really failing gang is found: class and rank, by generator.

``make bench ARGS="tests/benchmarks/test_first_causes.py -s"`` prints precision, recall and F1 of a
class, once for the generators that rules may be mended from, once for those held out. YARNAM_GANGS
says how many gangs (200), YARNAM_FAULTS from which file of generators alone (``everyday_faults``).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.benchmarks.failing_gangs.faults import FAULTS, HELD_OUT
from tests.benchmarks.failing_gangs.gang import GangCase, GangEnd, run_gang
from yarnam.core.model.outcomes import RetryAction

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

COLLECTIVES = ("socket", "connection", "socket", "connection", "grpc")
JAX_SHARE = 20
"""One gang in so many is jax's, which takes seconds to start."""

TRANSIENT = frozenset({"killed", "declared-transient", "port-in-use", "checkpoint-error"})
"""Classes whose failure may pass: never to be called permanent."""

AT_ONCE = 3

Result = tuple[GangCase, GangEnd]


def cases(count: int) -> list[GangCase]:
    """Every fault in turn, with another collective, size, rank and step each time; the same ones in
    each run."""
    dice = random.Random(30)
    only = os.environ.get("YARNAM_FAULTS", "")
    names = [name for name in FAULTS if only in file_of(name)]
    made = []
    for number in range(count):
        name = names[number % len(names)]
        size = dice.choice((2, 2, 2, 3, 3, 4, 8))
        collective = dice.choice(COLLECTIVES)
        if number % JAX_SHARE == 0:
            collective, size = "jax", 2
        made.append(GangCase(name, collective, size, dice.randrange(size), dice.randrange(4)))
    return made


def file_of(fault: str) -> str:
    """The file that its generator is in."""
    return FAULTS[fault][1].__module__.rpartition(".")[2]


def is_right(case: GangCase, end: GangEnd) -> bool:
    return end.finding.failure.value == FAULTS[case.fault][0] and end.rank == case.rank


def table(results: Sequence[Result]) -> tuple[str, float]:
    """Precision, recall and F1 of each class, and the macro-F1."""
    labels = Counter(FAULTS[case.fault][0] for case, _ in results)
    called = Counter(end.finding.failure.value for _, end in results)
    right = Counter(
        end.finding.failure.value
        for case, end in results
        if end.finding.failure.value == FAULTS[case.fault][0]
    )
    lines, scores = [], []
    for name in sorted(labels):
        precision = right[name] / called[name] if called[name] else 0.0
        recall = right[name] / labels[name]
        f1 = 2 * precision * recall / (precision + recall) if right[name] else 0.0
        scores.append(f1)
        lines.append(f"  {name:<24}{labels[name]:>5}{precision:>11.2f}{recall:>8.2f}{f1:>6.2f}")
    head = f"  {'class':<24}{'gangs':>5}{'precision':>11}{'recall':>8}{'F1':>6}"
    return "\n".join([head, *lines]), sum(scores) / len(scores)


def shares_by_file(results: Sequence[Result]) -> str:
    """How many of the held-out gangs are right, by the file of their generators: newer ones, which
    no rule has been tried on, tell most."""
    by_file: dict[str, list[bool]] = {}
    for case, end in results:
        if case.fault in HELD_OUT:
            by_file.setdefault(file_of(case.fault), []).append(is_right(case, end))
    return "\n".join(
        f"  {file:<24}{len(rights):>5}{sum(rights) / len(rights):>8.1%}"
        for file, rights in by_file.items()
    )


def test_first_causes_of_failing_gangs(tmp_path: Path) -> None:
    chosen = cases(int(os.environ.get("YARNAM_GANGS", "200")))

    def run(number: int) -> Result:
        folder = tmp_path / str(number)
        folder.mkdir()
        return chosen[number], run_gang(chosen[number], folder)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(run, range(len(chosen))))
    for name, is_held_out in (("open generators", False), ("held-out generators", True)):
        mine = [one for one in results if (one[0].fault in HELD_OUT) is is_held_out]
        if not mine:
            continue
        text, macro = table(mine)
        share = sum(is_right(*one) for one in mine) / len(mine)
        print(f"\n{name}: {len(mine)} gangs\n{text}")
        print(f"  macro-F1 {macro:.3f}; class and rank right in {share:.1%}")
    print("\nheld-out generators by their file:\n" + shares_by_file(results))
    for case, end in results:
        if not is_right(case, end):
            finding = end.finding
            print(
                f"  wrong: {case}: {finding.failure.value} by {finding.rule or 'no rule'}", end=""
            )
            print(f" at rank {end.rank}: {finding.line[:100]}")
    wrongly_final = [
        case
        for case, end in results
        if FAULTS[case.fault][0] in TRANSIENT and end.finding.action is RetryAction.NEVER
    ]
    assert wrongly_final == []
