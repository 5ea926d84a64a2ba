"""Handwritten digits by Keras 3 on JAX: each device has the whole model and a share of a batch.

KERAS_BACKEND=jax is in the spec.
"""

from __future__ import annotations

import jax
import keras
import numpy as np
from sklearn.datasets import load_digits

from yarnam import train

EPOCHS, BATCH = 20, 32  # of each process

train.initialize_jax()  # before the first question for devices
keras.utils.set_random_seed(0)  # the same first weights everywhere
keras.distribution.set_distribution(
    keras.distribution.DataParallel(devices=jax.devices(), auto_shard_dataset=False)
)
rank, ranks = jax.process_index(), jax.process_count()
digits = load_digits()
order = np.random.default_rng(0).permutation(len(digits.target))
learnt, test = order[360:], order[:360]
steps = len(learnt) // (BATCH * ranks)  # the same number of batches in each
mine = learnt[rank::ranks][: steps * BATCH]
pictures = (digits.data / 16).astype("float32")
model = keras.Sequential(
    [
        keras.layers.Input((64,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
model.fit(pictures[mine], digits.target[mine], batch_size=BATCH, epochs=EPOCHS, verbose=0)
print(f"rank {rank} of {ranks} has learnt from {len(mine)} digits", flush=True)
# Of the test by hand: model.predict would be a matter of all processes.
first, second = model.layers
hidden = np.maximum(pictures[test] @ np.asarray(first.kernel) + np.asarray(first.bias), 0)
found = hidden @ np.asarray(second.kernel) + np.asarray(second.bias)
if rank == 0:
    right = found.argmax(1) == digits.target[test]
    print(f"test accuracy {right.mean():.3f}", flush=True)
