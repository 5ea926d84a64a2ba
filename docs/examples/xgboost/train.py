"""Handwritten digits by boosted trees: each rank has samples of its own, all grow the same ones."""

from __future__ import annotations

import os

import numpy as np
import xgboost
from sklearn.datasets import load_digits
from xgboost import collective

ROUNDS = 30

# yarnam's tracker; the port has to be a number.
place = {
    "dmlc_tracker_uri": os.environ["DMLC_TRACKER_URI"],
    "dmlc_tracker_port": int(os.environ["DMLC_TRACKER_PORT"]),
    "dmlc_task_id": os.environ["DMLC_TASK_ID"],
}
with collective.CommunicatorContext(**place):
    rank, ranks = collective.get_rank(), collective.get_world_size()
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    train, test = order[360:], order[:360]
    mine = train[rank::ranks]
    model = xgboost.train(
        {"objective": "multi:softmax", "num_class": 10, "max_depth": 4},
        xgboost.DMatrix(digits.data[mine], digits.target[mine]),
        num_boost_round=ROUNDS,
    )
    right = model.predict(xgboost.DMatrix(digits.data[test])) == digits.target[test]
    print(f"rank {rank} of {ranks} has learnt from {len(mine)} digits", flush=True)
    if rank == 0:
        print(f"test accuracy {right.mean():.3f}", flush=True)
