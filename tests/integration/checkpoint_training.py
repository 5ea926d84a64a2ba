"""A tiny deterministic training that can be killed at any moment and go on.

Run as ``python -m tests.integration.checkpoint_training DIRECTORY STEPS ATTEMPT [background]``;
prints the losses as JSON when it is through. With ``gang`` as the first word it is two ranks, each
with its part of the weights and its own losses, which end together when one of them dies.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from hdfs_utils.checkpoints import (
    Checkpointer,
    Limits,
    OpenCheckpoint,
    Part,
    PerRank,
    Region,
    Retention,
    Spool,
    Token,
)

SIZE = 2000


def train(
    directory: str, steps: int, attempt: int, background: bool = False, pause_s: float = 0.0
) -> list[float]:
    """Gradient descent on a quadratic; a checkpoint after each step. Gives all losses."""
    target = np.linspace(-1, 1, SIZE)
    weights, losses = np.zeros(SIZE), []
    one = Checkpointer(
        directory,
        token=Token("training", (attempt,)),
        retention=Retention(keep=2),
        background=background,
        limits=Limits(patience_s=60.0),
        report=lambda skipped: print("skipped", skipped.path, skipped.reason, file=sys.stderr),
    )
    found = one.load()
    if found is not None:
        checkpoint, values = found
        weights, losses = values["weights"], list(checkpoint.metadata["losses"])
        assert checkpoint.step == len(losses), "arrays and metadata are of one save"
        assert int(values["step"]) == checkpoint.step, "a torn checkpoint"
    for step in range(len(losses), steps):
        noise = np.random.default_rng(step).normal(size=SIZE) * 0.01
        gradient = weights - target + noise
        losses.append(float(np.square(gradient).mean()))
        weights = weights - 0.05 * gradient
        values = {"weights": weights, "step": np.int64(step + 1)}
        one.save(step + 1, values, {"losses": losses}, {"loss": losses[-1]})
        time.sleep(pause_s)
    one.close()
    return losses


def kill_many(directory: str, kills: int, seed: int) -> dict[str, object]:
    """Fork a training, kill it at a random moment, and again; then let one run to its end."""
    draw = random.Random(seed)
    steps, attempt, deaths = 10**9, 0, 0
    reached = []
    life_s = 0.0
    while deaths < kills:
        if deaths % 20 == 0:
            # What a restore and a few saves take now: the machine may be busy.
            life_s = _seconds_for(f"{directory}-measure-{deaths}", 4)
        attempt += 1
        child = os.fork()
        if child == 0:
            try:
                train(directory, steps, attempt, background=attempt % 2 == 0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        # The beginning is the restore: some die there too.
        time.sleep(draw.uniform(0.0, life_s))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"attempt {attempt} failed by itself: {status}"
        deaths += 1
        if attempt % 10 == 0:
            reached.append(_step(directory))
    total = _step(directory) + 5
    return {
        "losses": train(directory, total, attempt + 1),
        "reference": train(f"{directory}-reference", total, 1),
        "reached": reached,
        "aside": [path.name for path in Path(directory[7:]).glob("corrupt-*")],
    }


def train_rank(directory: str, steps: int, attempt: int, rank: int, spool: Path) -> list[float]:
    """One of two ranks: its half of the weights, its own losses."""
    half = SIZE // 2
    first = rank * half
    target = np.linspace(-1, 1, SIZE)[first : first + half]
    weights, losses, begin = np.zeros(half), [], 0

    def read(opened: OpenCheckpoint) -> tuple[np.ndarray, list[float]]:
        own = json.loads(opened.plain(f"losses/rank-{rank}"))
        return opened.array("weights", Region((first,), (half,))), own

    one = Checkpointer(
        directory,
        rank=rank,
        world_size=2,
        token=Token("training", (attempt,)),
        retention=Retention(keep=2),
        background=attempt % 2 == 0,
        spool=Spool(spool / f"rank-{rank}"),
        limits=Limits(patience_s=20.0 if attempt % 3 else 1.0),
        report=lambda skipped: print("skipped", skipped.path, skipped.reason, file=sys.stderr),
    )
    found = one.restore(read)
    if found is not None:
        checkpoint, (weights, losses) = found
        begin = checkpoint.step
        assert len(losses) == begin, "a torn checkpoint"
    for step in range(begin, steps):
        noise = np.random.default_rng(step).normal(size=SIZE)[first : first + half] * 0.01
        gradient = weights - target + noise
        losses.append(float(np.square(gradient).mean()))
        weights = weights - 0.05 * gradient
        values = {
            "weights": Part(weights, (SIZE,), (first,)),
            "losses": PerRank(json.dumps(losses).encode()),
        }
        one.save(step + 1, values)
    one.close()
    return losses


def gang(directory: str, steps: int, attempt: int, spool: Path) -> int:
    """Both ranks as children; prints what each has when both are through. The exit code."""
    children: dict[int, int] = {}
    for rank in range(2):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                losses = train_rank(directory, steps, attempt, rank, spool)
                (spool / f"losses-{rank}.json").write_text(json.dumps(losses))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children[pid] = rank
    while children:
        pid, status = os.wait()
        del children[pid]
        if status:
            for other in children:
                os.kill(other, signal.SIGKILL)
            return 1 if os.WIFEXITED(status) else 9
    return 0


def _seconds_for(directory: str, steps: int) -> float:
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            train(directory, steps, 1)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return time.monotonic() - began


def _step(directory: str) -> int:
    from hdfs_utils import checkpoints

    found = checkpoints.latest(directory, report=lambda _skipped: None)
    return found.step if found else 0


if __name__ == "__main__":
    if sys.argv[1] == "gang":
        _, _, where, count, number, local = sys.argv
        sys.exit(gang(where, int(count), int(number), Path(local)))
    elif sys.argv[1] == "kill-many":
        print(json.dumps(kill_many(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        how = sys.argv[4:]
        print(
            json.dumps(train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "background" in how))
        )
