"""JAX pytrees: saved by the processes that hold their parts, restored with any sharding.

::

    checkpointer.save(step, pytrees.values(state))
    found = checkpointer.restore(lambda opened: pytrees.load(opened, like=state))

Orbax writes through TensorStore, which knows no HDFS: what has to stay in Orbax's own format is
written to a local directory and saved with :func:`hdfs_utils.checkpoints.files_below`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from hdfs_utils.checkpoints.format.reader import OpenCheckpoint
from hdfs_utils.checkpoints.format.regions import Region, of_slices
from hdfs_utils.checkpoints.format.values import Part

_Box = tuple[tuple[int, int], ...]


def values(tree: Any) -> dict[str, Any]:
    """What :meth:`Checkpointer.save` takes, from a tree of arrays.

    Each part of a ``jax.Array`` is saved once, by a process that holds it; all ranks call this.
    Other leaves (NumPy arrays, numbers) are taken to be the same on all ranks.
    """
    import jax

    found: dict[str, Any] = {}
    for name, leaf in named_leaves(tree):
        if not isinstance(leaf, jax.Array):
            found[name] = leaf
            continue
        array = _without_key(leaf)
        # The first of the devices that hold the same part saves it, so it is saved once.
        # JAX's arrays never change; it does not give a buffer away (donate) that we look at.
        parts = [
            Part(shard.data, array.shape, of_slices(shard.index, array.shape).start, True)
            for shard in array.addressable_shards
            if shard.replica_id == 0
        ]
        if parts:
            found[name] = parts
    return found


def load(opened: OpenCheckpoint, like: Any) -> Any:
    """The tree that was saved, in the structure and the shardings of ``like``.

    Args:
        opened: the checkpoint.
        like: a tree of ``jax.Array``, of ``jax.ShapeDtypeStruct`` with a sharding, or of NumPy
            arrays. Only what this process's devices need is read.

    Raises:
        KeyError: the checkpoint has no such leaf.
        ValueError: a leaf has another shape or type.
    """
    import jax

    leaves = [_Leaf(name, leaf, opened) for name, leaf in named_leaves(like)]
    wanted = [
        (leaf.name, Region(tuple(a for a, _ in box), tuple(n for _, n in box)))
        for leaf in leaves
        for box in leaf.boxes
    ]
    arrays = iter(opened.regions(wanted))
    made = [leaf.made({box: next(arrays) for box in leaf.boxes}) for leaf in leaves]
    return jax.tree.unflatten(jax.tree.structure(like), made)


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """The leaves in JAX's order, each with its path as a name: ``params/0/bias``."""
    import jax

    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        yield "/".join(_part(key) for key in path) or "value", leaf


def _part(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            text = quote(str(getattr(key, attribute)), safe=" []()<>=,'\"")
            # Names are paths: these would lead elsewhere.
            return text.replace(".", "%2E") if text in ("", ".", "..") else text
    return quote(str(key), safe="")


def _without_key(leaf: Any) -> Any:
    """The numbers of an array of random keys; other arrays as they are."""
    import jax

    if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    return leaf


class _Leaf:
    """One leaf of ``like`` and the boxes of it that this process needs."""

    def __init__(self, name: str, leaf: Any, opened: OpenCheckpoint) -> None:
        import jax

        self.name = name
        self._leaf = leaf
        is_jax = isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct))
        self._plain = _without_key(leaf) if isinstance(leaf, jax.Array) else leaf
        self.sharding = getattr(self._plain, "sharding", None) if is_jax else None
        shape, dtype = opened.shape(name), opened.dtype(name)
        wanted = getattr(self._plain, "shape", shape), getattr(self._plain, "dtype", dtype)
        if wanted != (shape, dtype):
            message = f"{name}: saved was {dtype}{list(shape)}, wanted is {wanted[1]}{wanted[0]}"
            raise ValueError(message)
        self._shape = shape
        self.boxes: list[_Box] = [_box((slice(None),) * len(shape), shape)]
        if self.sharding is not None:
            indices = self.sharding.addressable_devices_indices_map(shape).values()
            self.boxes = list(dict.fromkeys(_box(index, shape) for index in indices))

    def made(self, found: dict[_Box, Any]) -> Any:
        import jax

        if self.sharding is None:
            return found[self.boxes[0]]
        array = jax.make_array_from_callback(
            self._shape, self.sharding, lambda index: found[_box(index, self._shape)]
        )
        if self._plain is not self._leaf:
            return jax.random.wrap_key_data(array, impl=jax.random.key_impl(self._leaf))
        return array


def _box(index: Any, shape: tuple[int, ...]) -> _Box:
    region = of_slices(index, shape)
    return tuple(zip(region.start, region.extent, strict=True))
