"""Handwritten digits by ParameterServerStrategy: TF_CONFIG is all that it reads.

The chief hands out steps, the workers take them, the parameter server has the variables, and the
evaluator judges each checkpoint that the chief has saved.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS, STEPS, BATCH, RATE = 4, 150, 64, 0.2  # steps of an epoch, pictures of a step
HIDDEN = 128

parser = argparse.ArgumentParser()
parser.add_argument("--model", type=Path, required=True, help="a directory that all nodes share")
arguments = parser.parse_args()

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
digits = load_digits()
pictures = (digits.data / 16).astype("float32")
labels = digits.target.astype("int64")
order = np.random.default_rng(0).permutation(len(labels))
train, test = order[360:], order[:360]


def new_variables() -> list[tf.Variable]:
    return [
        tf.Variable(tf.random.stateless_normal((64, HIDDEN), (0, 1)) * 0.18),
        tf.Variable(tf.zeros(HIDDEN)),
        tf.Variable(tf.random.stateless_normal((HIDDEN, 10), (0, 2)) * 0.12),
        tf.Variable(tf.zeros(10)),
    ]


def scores(variables, inputs):
    first, first_bias, second, second_bias = variables
    return tf.nn.relu(inputs @ first + first_bias) @ second + second_bias


def serve() -> None:
    """A worker or a parameter server: the chief says what to do. It never ends by itself."""
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id
    )
    server.join()


def lead() -> None:
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():  # the variables live on the parameter server
        variables = new_variables()
    checkpoint = tf.train.Checkpoint(variables=variables)
    manager = tf.train.CheckpointManager(checkpoint, str(arguments.model), max_to_keep=None)

    @tf.function
    def step(batches):
        inputs, wanted = next(batches)
        with tf.GradientTape() as tape:
            found = scores(variables, inputs)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, found)
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(RATE * gradient)

    def batches():
        data = tf.data.Dataset.from_tensor_slices((pictures[train], labels[train]))
        return data.shuffle(len(train)).repeat().batch(BATCH)

    dataset = coordinator.create_per_worker_dataset(batches)
    iterator = iter(dataset)
    for epoch in range(1, EPOCHS + 1):
        for _ in range(STEPS):
            coordinator.schedule(step, args=(iterator,))
        coordinator.join()
        manager.save(checkpoint_number=epoch)
        print(f"epoch {epoch} of {EPOCHS}", flush=True)


def evaluate() -> None:
    variables = new_variables()
    checkpoint = tf.train.Checkpoint(variables=variables)
    for path in tf.train.checkpoints_iterator(str(arguments.model), timeout=600):
        checkpoint.restore(path).expect_partial()
        right = scores(variables, pictures[test]).numpy().argmax(1) == labels[test]
        print(f"{Path(path).name}: {right.mean():.3f}", flush=True)
        if path.endswith(f"-{EPOCHS}"):
            print(f"test accuracy {right.mean():.3f}", flush=True)
            return
    raise SystemExit("no checkpoint in 10 minutes")


{"worker": serve, "ps": serve, "chief": lead, "evaluator": evaluate}[resolver.task_type]()
