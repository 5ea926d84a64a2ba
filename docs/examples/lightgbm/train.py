"""Handwritten digits by boosted trees: each rank has samples of its own, all grow the same ones."""

from __future__ import annotations

import os

import lightgbm
import numpy as np
from sklearn.datasets import load_digits

ROUNDS = 30

# LightGBM's parameters of these names: it does not read the environment.
network = {
    "machines": os.environ["LIGHTGBM_MACHINES"],
    "num_machines": int(os.environ["LIGHTGBM_NUM_MACHINES"]),
    "local_listen_port": int(os.environ["LIGHTGBM_LOCAL_LISTEN_PORT"]),
}
rank, ranks = int(os.environ["YARNAM_RANK"]), int(os.environ["YARNAM_WORLD_SIZE"])
digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
train, test = order[360:], order[:360]
mine = train[rank::ranks]
model = lightgbm.train(
    {
        "objective": "multiclass",
        "num_class": 10,
        "num_leaves": 15,
        "tree_learner": "data",
        "pre_partition": True,  # each process has samples of its own
        "verbose": -1,
        **network,
    },
    lightgbm.Dataset(digits.data[mine], digits.target[mine]),
    num_boost_round=ROUNDS,
)
right = model.predict(digits.data[test]).argmax(axis=1) == digits.target[test]
print(f"rank {rank} of {ranks} has learnt from {len(mine)} digits", flush=True)
if rank == 0:
    print(f"test accuracy {right.mean():.3f}", flush=True)
