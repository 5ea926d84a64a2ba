"""PyTorch's state dictionaries: tensors as arrays, the rest as JSON, no pickle.

::

    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    checkpointer.save(step, torch_state.values(state))
    checkpoint, state = checkpointer.restore(torch_state.load)

For one process, or for many with the same state (DDP: rank 0's is saved). Sharded models (FSDP,
tensor parallel) go through :mod:`hdfs_utils.checkpoints.frameworks.torch_distributed`.
"""

from __future__ import annotations

import json
from typing import Any

from hdfs_utils.checkpoints.format.manifest import MAX_BYTES, corrupt_where_malformed
from hdfs_utils.checkpoints.format.reader import OpenCheckpoint
from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_json, shown

STRUCTURE = "torch.json"
# Each level of the state is three of the JSON.
_MAX_DEPTH = 300


def values(state: Any) -> dict[str, Any]:
    """What :meth:`Checkpointer.save` takes: dictionaries and lists of tensors and plain values.

    Raises:
        TypeError: something that is neither a tensor nor plain (numbers, text, None).
        ValueError: it is nested too deeply, or larger than what is loaded.
    """
    arrays: dict[str, Any] = {}
    structure = _described(state, arrays, "")
    data = json.dumps(structure).encode()
    try:
        _decode(data)
    except MalformedData as error:
        raise ValueError(f"the state could not be loaded again: {error.message}") from error
    return {STRUCTURE: data, **arrays}


def load(opened: OpenCheckpoint) -> Any:
    """The state that was saved, its tensors on the CPU: ``load_state_dict`` moves them."""
    import torch

    arrays = opened.arrays()

    def built(node: dict[str, Any]) -> Any:
        [(kind, content)] = node.items()
        if kind == "tensor":
            name, dtype = content
            return torch.from_numpy(arrays[name]).view(_dtype(dtype))
        if kind == "dict":
            return {key: built(value) for key, value in content}
        if kind in ("list", "tuple"):
            items = [built(value) for value in content]
            return tuple(items) if kind == "tuple" else items
        return content

    with corrupt_where_malformed(opened.checkpoint.path, "load"):
        return built(_decode(opened.plain(STRUCTURE)))


def _decode(data: bytes) -> Any:
    # A random generator's state has long integers, a scheduler's best loss is infinite.
    return decode_json(data, max_bytes=MAX_BYTES, max_depth=_MAX_DEPTH, is_lenient=True)


def _dtype(name: object) -> Any:
    import torch

    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{shown(name)} is not an element type")
    return found


def _described(value: Any, arrays: dict[str, Any], where: str) -> dict[str, Any]:
    import torch

    if isinstance(value, torch.Tensor):
        name = f"tensors/{len(arrays):06d}"
        arrays[name] = to_array(value)
        return {"tensor": [name, str(value.dtype).removeprefix("torch.")]}
    if isinstance(value, dict):
        bad = [key for key in value if not isinstance(key, (str, int)) or isinstance(key, bool)]
        if bad:
            raise TypeError(f"{where or 'the state'}: {bad[0]!r} cannot be a key")
        return {"dict": [[k, _described(v, arrays, f"{where}/{k}")] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_described(v, arrays, f"{where}/{n}") for n, v in enumerate(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"plain": value}
    raise TypeError(f"{where}: a {type(value).__name__} is neither a tensor nor plain data")


def to_array(tensor: Any) -> Any:
    """A tensor as a NumPy array; types that NumPy does not have, as integers of their size."""
    import torch

    plain = tensor.detach().cpu().contiguous()
    try:
        return plain.numpy()
    except TypeError:
        by_size = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        return plain.view(by_size[plain.element_size()]).numpy()
