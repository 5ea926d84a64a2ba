"""Handwritten digits by MultiWorkerMirroredStrategy: TF_CONFIG is all that it reads.

A loop of its own: Keras 3 has no `fit` for several workers.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS, BATCH, RATE = 12, 64, 0.3  # a batch over all workers

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
with strategy.scope():  # what each worker adds to a variable becomes the mean of all
    start = tf.random.stateless_normal
    variables = [
        tf.Variable(value, aggregation=tf.VariableAggregation.MEAN)
        for value in (
            start((64, 128), (0, 1)) * 0.18,
            tf.zeros(128),
            start((128, 10), (0, 2)) * 0.12,
            tf.zeros(10),
        )
    ]


def scores(inputs):
    first, first_bias, second, second_bias = variables
    return tf.nn.relu(inputs @ first + first_bias) @ second + second_bias


def learn(inputs, labels):
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores(inputs))
        loss = tf.reduce_mean(losses)
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        variable.assign_sub(RATE * gradient)


@tf.function
def step(batch):
    strategy.run(learn, args=batch)


for _ in range(EPOCHS):
    for batch in strategy.experimental_distribute_dataset(data):
        step(batch)
print(f"rank {rank} of {workers}", flush=True)
if rank == 0:
    right = scores(pictures[test]).numpy().argmax(1) == digits.target[test]
    print(f"test accuracy {right.mean():.3f}", flush=True)
