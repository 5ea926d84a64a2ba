"""JAX trees and PyTorch states as checkpoints."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import google_crc32c
import numpy as np
import pytest

from hdfs_utils import checkpoints
from hdfs_utils.checkpoints import Checkpointer, files_below
from tests.fakes.files import MemoryFiles

ROOT = Path(__file__).parents[4]
SYSTEM_PYTHON = "/usr/bin/python3"

JAX = """
    import sys
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from hdfs_utils.checkpoints import Checkpointer, load_latest
    from hdfs_utils.checkpoints.frameworks import jax_pytrees as pytrees

    assert len(jax.devices()) == 4
    grid = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    line = Mesh(np.array(jax.devices()), ("x",))
    columns = NamedSharding(line, P(None, "x"))
    w = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    state = {
        "params": [
            {"w": jax.device_put(w, NamedSharding(grid, P("x", "y"))),
             "b": jax.device_put(jnp.ones(4, jnp.bfloat16), NamedSharding(grid, P("y")))},
            {"w": jax.device_put(w, NamedSharding(grid, P()))},
        ],
        "key": jax.random.key(3),
        "step": np.int64(7),
        "a/b": jnp.float32(2.5),
    }
    with Checkpointer(sys.argv[1]) as one:
        saved = one.save(7, pytrees.values(state))
        # What is there on several devices is stored once.
        assert sum(e.length for e in saved.entries) < 2 * w.nbytes + 100, saved.entries
        like = {
            "params": [
                {"w": jax.ShapeDtypeStruct(w.shape, w.dtype, sharding=columns),
                 "b": jax.device_put(jnp.zeros(4, jnp.bfloat16), NamedSharding(line, P("x")))},
                {"w": jnp.zeros((8, 8), jnp.float32)},
            ],
            "key": jax.random.key(0),
            "step": np.int64(0),
            "a/b": jnp.float32(0),
        }
        checkpoint, found = one.restore(lambda opened: pytrees.load(opened, like=like))
    assert found["params"][0]["w"].sharding == columns
    np.testing.assert_array_equal(found["params"][0]["w"], w)
    np.testing.assert_array_equal(found["params"][1]["w"], w)
    assert found["params"][0]["b"].dtype == jnp.bfloat16
    assert found["params"][0]["b"].astype(float).tolist() == [1.0] * 4
    assert jax.random.uniform(found["key"]) == jax.random.uniform(jax.random.key(3))
    assert (int(found["step"]), float(found["a/b"])) == (7, 2.5)
    # A buffer that is given away while it is saved in the background is still what it was.
    add = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    with Checkpointer(sys.argv[1] + "-donated", background=True) as other:
        big = {"w": jnp.zeros((4 << 20,), jnp.float32)}
        for step in range(3):
            other.save(step, pytrees.values(big))
            big = add(big)
    last, values = load_latest(sys.argv[1] + "-donated")
    assert (last.step, set(np.unique(values["w"]))) == (2, {2.0})
    try:
        one.restore(lambda opened: pytrees.load(opened, like={"step": np.zeros(3)}))
    except ValueError as error:
        assert "step: saved was int64[]" in str(error)
    print("ok")
"""


def test_a_jax_tree_is_restored_with_another_sharding(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    env = {
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(JAX), f"file://{tmp_path}/c"],
        env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "ok\n", done.stderr


TORCH = """
    import sys
    import torch
    from hdfs_utils.checkpoints import Checkpointer
    from hdfs_utils.checkpoints.frameworks import torch_state

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1).to(torch.bfloat16))
    optimizer = torch.optim.Adam(model[0].parameters(), lr=0.1)
    model[0](torch.ones(2, 3)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "flag": True,
             "shape": (1, 2), "scalar": torch.tensor(3), "mask": torch.tensor([True, False])}
    with Checkpointer(sys.argv[1]) as one:
        one.save(5, torch_state.values(state))
        checkpoint, found = one.restore(torch_state.load)
    assert checkpoint.step == 5
    assert list(found["model"]) == list(state["model"])
    for name, tensor in state["model"].items():
        assert found["model"][name].dtype == tensor.dtype
        assert torch.equal(found["model"][name], tensor), name
    assert found["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
    assert set(found["optimizer"]["state"]) == {0, 1}
    assert (found["flag"], found["shape"], int(found["scalar"])) == (True, (1, 2), 3)
    assert found["mask"].tolist() == [True, False]
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    try:
        torch_state.values({"a": {"b": object()}})
    except TypeError as error:
        assert str(error).startswith("/a/b: a object"), error
    print("ok")
"""


def has_torch() -> bool:
    """Of this Python's version, since this environment's compiled checksums are lent to it."""
    version = f"{sys.version_info.major}, {sys.version_info.minor}"
    look = [
        SYSTEM_PYTHON,
        "-c",
        f"import sys, torch; sys.exit(sys.version_info[:2] != ({version}))",
    ]
    return Path(SYSTEM_PYTHON).exists() and not subprocess.run(look, capture_output=True).returncode


@pytest.mark.skipif(not has_torch(), reason="the system's Python has no torch")
def test_a_torch_state_is_restored(tmp_path: Path) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    for folder in Path(google_crc32c.__file__).parents[1].glob("google_crc32c*"):
        (lent / folder.name).symlink_to(folder)
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", textwrap.dedent(TORCH), f"file://{tmp_path}/c"],
        env={"PYTHONPATH": f"{ROOT}:{lent}"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == "ok\n", done.stderr


def test_what_another_library_wrote_is_saved_as_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(b"1")
    (tmp_path / "d").write_bytes(b"22")
    fs = MemoryFiles()
    saved = Checkpointer("/c", fs=fs).save(1, files_below(tmp_path, "orbax/"))
    assert saved
    assert checkpoints.load(saved, fs=fs) == {"orbax/a/b/c": b"1", "orbax/d": b"22"}


def test_types_that_only_ml_dtypes_knows() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    fs = MemoryFiles()
    array = np.array([1.5, 2.0], ml_dtypes.bfloat16)
    saved = Checkpointer("/c", fs=fs).save(1, {"w": array})
    assert saved
    found = checkpoints.load(saved, fs=fs)["w"]
    assert found.dtype == array.dtype
    assert found.astype(float).tolist() == [1.5, 2.0]
