"""A training of some rows on each rank that goes on from its checkpoint with the same losses."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np

ROWS = 10

# Each rank trains its rows; a save is there on all ranks or on none, so they stay in step.
SCRIPT = """
import json, sys, time
import numpy as np
from hdfs_utils.checkpoints import Part, PerRank, Region
from yarnam import train

rows, steps, result = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
fault, fault_step = sys.argv[4] if len(sys.argv) > 4 else "", 5
rank, size = train.rank(), train.world_size()
first, stop = rows * rank // size, rows * (rank + 1) // size
target = np.linspace(-1, 1, rows * 4).reshape(rows, 4)[first:stop]
weights, losses, begin = np.zeros_like(target), [], 0

def read(opened):
    try:
        own = json.loads(opened.plain(f"losses/rank-{rank}"))
    except KeyError:  # the gang was smaller
        own = json.loads(opened.plain("losses/rank-0"))
    return opened.array("w", Region((first, 0), weights.shape)), own

with train.checkpoint.open(sharded=True) as saved:
    found = saved.restore(read)
    if found is not None:
        checkpoint, (weights, losses) = found
        begin = checkpoint.step
        assert len(losses) == begin, "a torn checkpoint"
    print("begins at", begin, "attempt", train.attempt(), flush=True)
    with open(f"{result}.{rank}.from-{train.attempt()}", "w") as file:
        json.dump(begin, file)
    for step in range(begin, steps):
        time.sleep(0.3)
        noise = np.random.default_rng(step).normal(size=(rows, 4))[first:stop] * 0.01
        gradient = weights - target + noise
        losses.append(float(np.square(gradient).sum()))
        weights = weights - 0.1 * gradient
        values = {"w": Part(weights, (rows, 4), (first, 0)),
                  "losses": PerRank(json.dumps(losses).encode())}
        saved.save(step + 1, values)
        train.report(step=step + 1, total_steps=steps, loss=losses[-1])
        if fault and train.attempt() == 1 and step + 1 == fault_step and rank == size - 1:
            saved.wait()
            exec(fault)
with open(f"{result}.{rank}", "w") as file:
    json.dump(losses, file)
"""
"""Its arguments: rows and steps in all, and where each rank writes its losses. A fourth is code
that the last rank runs in the first attempt, once its checkpoint of step 5 is whole."""

FAULT_STEP = 5


def reference(steps: int, first: int, stop: int) -> list[float]:
    """The losses of the rank with these rows, undisturbed."""
    target = np.linspace(-1, 1, ROWS * 4).reshape(ROWS, 4)[first:stop]
    weights, losses = np.zeros_like(target), []
    for step in range(steps):
        noise = np.random.default_rng(step).normal(size=(ROWS, 4))[first:stop] * 0.01
        gradient = weights - target + noise
        losses.append(float(np.square(gradient).sum()))
        weights = weights - 0.1 * gradient
    return losses


def losses_of(result: Path, size: int) -> list[list[float]]:
    """What the ranks have written."""
    return [json.loads(Path(f"{result}.{rank}").read_text()) for rank in range(size)]


def references(steps: int, size: int) -> list[list[float]]:
    bounds = [ROWS * rank // size for rank in range(size + 1)]
    return [reference(steps, *one) for one in pairwise(bounds)]


def began_at(result: Path, attempt: int, size: int) -> list[int]:
    """After which step each rank has gone on in this attempt."""
    return [json.loads(Path(f"{result}.{rank}.from-{attempt}").read_text()) for rank in range(size)]
