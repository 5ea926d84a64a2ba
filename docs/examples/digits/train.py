"""Train a small network on the scanned digits, data-parallel over any number of processes.

Each process reads its own shards from HDFS; the gradients are averaged over all processes. The
global batch holds the same digits however many processes share it, so that four processes walk
the same loss curve as one. Run it alone to see: ``python train.py --data ... --output ...``.

In a job, yarnam sets the four variables that ``start_world`` reads.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

# Without a GPU: no search for one, and one thread for each process, since there are many.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from records import PIXELS, Shard, read_manifest, read_shard

from hdfs_utils import connect
from hdfs_utils.checkpoints.frameworks import jax_pytrees
from yarnam import train

SEED = 20
SIZES = (PIXELS, 128, 64, 10)
BATCH_PER_SHARD = 30
LEARNING_RATE = 0.05
MOMENTUM = 0.9

Params = list[dict[str, Any]]


def start_world() -> tuple[int, int]:
    """Join the other processes, if there are any. Returns this process's rank and their number."""
    processes = int(os.environ.get("NUM_PROCESSES", "1"))
    rank = int(os.environ.get("PROCESS_ID", "0"))
    if processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        coordinator = f"{os.environ['COORDINATOR_ADDRESS']}:{os.environ['COORDINATOR_PORT']}"
        jax.distributed.initialize(coordinator, processes, rank)
    return rank, processes


class OwnShards:
    """The shards that this process reads, and its part of every global batch.

    A global batch takes ``BATCH_PER_SHARD`` records of each shard, whoever owns it. Where the
    shards do not divide evenly, a process fills up with records of weight zero.
    """

    def __init__(self, directory: str, shards: tuple[Shard, ...], rank: int, processes: int):
        if processes > len(shards):
            raise SystemExit(f"{processes} processes, but only {len(shards)} shards: use fewer")
        self.numbers = range(rank, len(shards), processes)
        files = connect(directory)
        self.data = [read_shard(files, directory, shards[number]) for number in self.numbers]
        self.slots = -(-len(shards) // processes)
        self.records = max(shard.records for shard in shards)

    def pick(self, chosen: list[np.ndarray], size: int) -> tuple[np.ndarray, ...]:
        """Pixels, labels and weights: ``size`` rows for each slot, the missing ones of weight 0."""
        pixels = np.zeros((self.slots, size, PIXELS), np.float32)
        labels = np.zeros((self.slots, size), np.int32)
        weights = np.zeros((self.slots, size), np.float32)
        for slot, (rows, (shard_pixels, shard_labels)) in enumerate(
            zip(chosen, self.data, strict=True)
        ):
            pixels[slot, : len(rows)] = shard_pixels[rows]
            labels[slot, : len(rows)] = shard_labels[rows]
            weights[slot, : len(rows)] = 1.0
        return pixels.reshape(-1, PIXELS), labels.reshape(-1), weights.reshape(-1)

    def batches(self, epoch: int) -> list[tuple[np.ndarray, ...]]:
        """This process's part of the epoch's batches. The order depends on seed, epoch, shard."""
        orders = [
            np.random.default_rng((SEED, epoch, number)).permutation(self.records)
            for number in self.numbers
        ]
        return [
            self.pick([order[start : start + BATCH_PER_SHARD] for order in orders], BATCH_PER_SHARD)
            for start in range(0, self.records, BATCH_PER_SHARD)
        ]

    def everything(self) -> tuple[np.ndarray, ...]:
        return self.pick([np.arange(len(labels)) for _, labels in self.data], self.records)


def initial_state() -> dict[str, Params]:
    keys = jax.random.split(jax.random.key(SEED), len(SIZES) - 1)
    params = [
        {
            "weights": jax.random.normal(key, (fan_in, fan_out)) * jnp.sqrt(2 / fan_in),
            "bias": jnp.zeros(fan_out),
        }
        for key, fan_in, fan_out in zip(keys, SIZES, SIZES[1:], strict=False)
    ]
    return {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params)}


def logits(params: Params, pixels: jax.Array) -> jax.Array:
    for layer in params[:-1]:
        pixels = jax.nn.relu(pixels @ layer["weights"] + layer["bias"])
    return pixels @ params[-1]["weights"] + params[-1]["bias"]


def loss(params: Params, pixels: jax.Array, labels: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean over the global batch. Its gradient is the average over all processes: the batch is
    split over them, so JAX sums the parts with one all-reduce."""
    chances = jax.nn.log_softmax(logits(params, pixels))
    picked = jnp.take_along_axis(chances, labels[:, None], axis=1)[:, 0]
    return -(weights * picked).sum() / weights.sum()


@jax.jit
def train_step(state: dict[str, Params], *batch: jax.Array) -> tuple[dict[str, Params], jax.Array]:
    value, gradients = jax.value_and_grad(loss)(state["params"], *batch)
    momentum = jax.tree.map(lambda old, new: MOMENTUM * old + new, state["momentum"], gradients)
    params = jax.tree.map(lambda old, move: old - LEARNING_RATE * move, state["params"], momentum)
    return {"params": params, "momentum": momentum}, value


@jax.jit
def count_correct(
    params: Params, pixels: jax.Array, labels: jax.Array, weights: jax.Array
) -> jax.Array:
    return (weights * (logits(params, pixels).argmax(axis=1) == labels)).sum()


class Run:
    """One training run: the mesh over all processes, the state, the checkpoints."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank, self.processes = start_world()
        mesh = Mesh(np.array(jax.devices()), ("data",))
        self.split = NamedSharding(mesh, PartitionSpec("data"))
        self.everywhere = NamedSharding(mesh, PartitionSpec())
        self.losses: list[float] = []
        # All processes hold the same state: rank 0 saves it for all.
        self.saved = train.checkpoint.open(options.checkpoints) if self.rank == 0 else None

    def spread(self, arrays: tuple[np.ndarray, ...]) -> list[jax.Array]:
        """Every process's rows as one global array, split over the processes."""
        return [jax.make_array_from_process_local_data(self.split, array) for array in arrays]

    def say(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)

    def restore(self) -> tuple[dict[str, Params], int]:
        """The state to go on from and the next epoch. All processes take what rank 0 reads."""
        state = jax.device_get(jax.jit(initial_state)())
        epoch = 0
        if self.saved:
            found = self.saved.restore(lambda opened: jax_pytrees.load(opened, like=state))
            if found is not None:
                checkpoint, state = found
                self.losses = list(checkpoint.metadata["losses"])
                epoch = len(self.losses)
                self.say(f"going on from the checkpoint after epoch {epoch}")
        state, epoch = multihost_utils.broadcast_one_to_all((state, np.int32(epoch)))
        return jax.device_put(state, self.everywhere), int(epoch)

    def save(self, state: dict[str, Params], step: int) -> None:
        if self.saved:
            self.saved.save(
                step,
                jax_pytrees.values(jax.device_get(state)),
                metadata={"losses": self.losses},
                metrics={"loss": self.losses[-1]},
            )

    def train(self, data: OwnShards) -> dict[str, Params]:
        state, first = self.restore()
        epochs, batches = self.options.epochs, -(-data.records // BATCH_PER_SHARD)
        for epoch in range(first, epochs):
            values = []
            for batch in data.batches(epoch):
                state, value = train_step(state, *self.spread(batch))
                values.append(value)
            self.losses.append(float(np.mean([float(value) for value in values])))
            done = epoch + 1
            train.report(step=done * batches, total_steps=epochs * batches, loss=self.losses[-1])
            stop = train.should_stop(done)  # of all processes after the same epoch
            if stop or done == epochs or done % self.options.checkpoint_every == 0:
                self.say(f"epoch {done:3} of {epochs}  loss {self.losses[-1]:.4f}")
                self.save(state, done * batches)
            if stop:
                self.say(f"asked to stop: left after epoch {done}, the checkpoint is written")
                raise SystemExit(0)
        return state

    def finish(self, state: dict[str, Params], test: OwnShards, digits: int) -> None:
        """Measure on the held-out part, print and keep the result."""
        correct = int(count_correct(state["params"], *self.spread(test.everything())))
        accuracy = correct / digits
        self.say(
            f"test accuracy {accuracy:.4f} ({correct} of {digits} held-out digits), "
            f"{self.processes} processes"
        )
        result = {
            "test_accuracy": accuracy,
            "processes": self.processes,
            "epochs": self.options.epochs,
            "losses": self.losses,
        }
        if self.saved:
            self.saved.close()
            path = f"{self.options.output}/result.json"
            connect(path).write_atomic(path, json.dumps(result, indent=1).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", metavar="URI", help="what prepare.py wrote")
    parser.add_argument("--output", metavar="URI", help="directory for the result")
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="EPOCHS")
    parser.add_argument("--epochs", type=int, default=40)
    options = parser.parse_args()
    # In a job the spec says where things are; outside of one, the command line does.
    options.data = options.data or train.input("digits")
    options.output = options.output or train.output_directory()
    options.checkpoints = train.checkpoint_directory(f"{options.output}/checkpoints")
    run = Run(options)
    manifest = read_manifest(options.data)
    place = (run.rank, run.processes)
    state = run.train(OwnShards(options.data, manifest.train, *place))
    held_out = sum(shard.records for shard in manifest.test)
    run.finish(state, OwnShards(options.data, manifest.test, *place), held_out)


if __name__ == "__main__":
    main()
