"""Handwritten digits by MultiWorkerMirroredStrategy: TF_CONFIG is all that it reads."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS, BATCH = 12, 64  # over all workers

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
workers = strategy.num_replicas_in_sync
digits = load_digits()
pictures = (digits.data / 16).astype("float32")
order = np.random.default_rng(0).permutation(len(digits.target))
train, test = order[360:], order[:360]
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
data = (
    tf.data.Dataset.from_tensor_slices((pictures[train], digits.target[train]))
    .shuffle(len(train), seed=0)
    .batch(BATCH, drop_remainder=True)
    .with_options(options)
)
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((64,)),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=tf.keras.optimizers.Adam(3e-3),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
model.fit(data, epochs=EPOCHS, verbose=0)
print(f"rank {rank} of {workers}", flush=True)
if rank == 0:
    hidden, last = (layer.get_weights() for layer in model.layers)
    found = np.maximum(pictures[test] @ hidden[0] + hidden[1], 0) @ last[0] + last[1]
    right = found.argmax(1) == digits.target[test]
    print(f"test accuracy {right.mean():.3f}", flush=True)
