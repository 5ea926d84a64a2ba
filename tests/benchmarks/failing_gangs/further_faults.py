"""More ways to fail, all held out: written from what the classes mean, the rules not looked at."""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import importlib.util
import io
import logging
import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from .faults import fault, limit, used_bytes

NOBODY = 65534


@contextmanager
def file_with(content: bytes, name: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        yield path


def end_as(*command: str | Path) -> None:
    """As a launcher that ends with the exit code of what it launched."""
    sys.exit(subprocess.run(command).returncode)


def become_nobody() -> None:
    if os.geteuid() == 0:
        os.setuid(NOBODY)


# ---- inputs --------------------------------------------------------------------------------------


@fault("incorrect-inputs", held_out=True)
def weights_cut_short() -> object:
    import numpy as np
    from safetensors.numpy import load_file, save

    whole = save({"embedding": np.ones((64, 64))})
    with file_with(whole[:-4000], "model.safetensors") as path:
        return load_file(path)


@fault("incorrect-inputs", held_out=True)
def settings_with_a_tab() -> object:
    import yaml

    with file_with(b"data:\n\ttrain: /data/train\n", "data.yaml") as path:
        return yaml.safe_load(path.read_text())


@fault("incorrect-inputs", held_out=True)
def text_among_the_numbers() -> object:
    import numpy as np

    with file_with(b"5.1,3.5\n4.9,unknown\n", "iris.csv") as path:
        return np.loadtxt(path, delimiter=",")


@fault("incorrect-inputs", held_out=True)
def table_empty() -> object:
    import pandas as pd

    with file_with(b"", "labels.csv") as path:
        return pd.read_csv(path)


@fault("incorrect-inputs", held_out=True)
def photo_cut_short() -> object:
    import numpy as np
    from PIL import Image

    whole = io.BytesIO()
    Image.fromarray(np.arange(30_000, dtype=np.uint8).reshape(100, 100, 3)).save(whole, "JPEG")
    with file_with(whole.getvalue()[:-500], "cat.jpg") as path, Image.open(path) as photo:
        return photo.convert("RGB").resize((32, 32))


@fault("incorrect-inputs")
def shard_cut_short_for_tar() -> None:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as shard:
        member = tarfile.TarInfo("0001.jpg")
        member.size = 9999
        shard.addfile(member, io.BytesIO(os.urandom(9999)))
    with file_with(whole.getvalue()[:5000], "shard-0001.tar.gz") as path:
        end_as("tar", "-xzf", path, "-C", path.parent)


@fault("incorrect-inputs")
def tokens_empty() -> object:
    import numpy as np

    with file_with(b"", "train.bin") as path:
        return np.memmap(path, dtype=np.uint16, mode="r")


# ---- the program ---------------------------------------------------------------------------------


@fault("semantic-error")
def branch_on_a_traced_value() -> object:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def clip(gradient: jax.Array) -> jax.Array:
        return gradient / 2 if jnp.abs(gradient).max() > 1 else gradient

    return clip(jnp.ones(3))


@fault("semantic-error", held_out=True)
def used_before_it_is_set() -> object:
    losses: list[float] = []
    for number, loss in enumerate(losses, 1):
        average = loss / number
    return average


@fault("semantic-error", held_out=True)
def too_few_to_unpack() -> None:
    batches = [("image", "label")]
    for image, label, weight in batches:  # type: ignore[misc]
        print(image, label, weight)


@fault("semantic-error", held_out=True)
def lambda_for_a_worker() -> object:
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        return workers.map(lambda image: image * 2, range(4))


@fault("semantic-error")
def keys_of_two_types() -> object:
    import pandas as pd

    users = pd.DataFrame({"user": [1, 2]})
    clicks = pd.DataFrame({"user": ["1", "2"]})
    return users.merge(clicks, on="user")


@fault("import-error", held_out=True)
def optional_reader_missing() -> object:
    import pandas as pd

    return pd.read_excel(io.BytesIO(b"PK"), engine="pyxlsb")


@fault("import-error", held_out=True)
def package_run_as_a_script() -> None:
    with file_with(b"from .model import Net\n", "train.py") as path:
        end_as(sys.executable, path)


@fault("syntax-error", held_out=True)
def conflict_left_by_a_merge() -> None:
    script = b"<<<<<<< HEAD\nlr = 0.1\n=======\nlr = 0.01\n>>>>>>> faster\n"
    with file_with(script, "train.py") as path:
        end_as(sys.executable, path)


@fault("library-not-loaded", held_out=True)
def extension_for_a_newer_glibc() -> object:
    spec = importlib.util.find_spec("numpy.random._mt19937")
    assert spec is not None
    assert spec.origin is not None
    newer = Path(spec.origin).read_bytes().replace(b"GLIBC_2.", b"GLIBC_9.")
    with file_with(newer, "_mt19937.so") as path:
        copy = importlib.util.spec_from_file_location("_mt19937", path)
        assert copy is not None
        return importlib.util.module_from_spec(copy)


@fault("library-not-loaded", held_out=True)
def library_of_a_program_cut_short() -> None:
    with file_with(b"\x7fELF\x02\x01\x01", "libc.so.6") as path:
        end_as("env", f"LD_LIBRARY_PATH={path.parent}", "sort", "/dev/null")


@fault("command-not-found", held_out=True)
def interpreter_missing() -> None:
    with file_with(b"#!/usr/bin/env python3.99\nprint()\n", "train.py") as path:
        path.chmod(0o755)
        end_as("bash", "-c", f"{path} --epochs 3")


@fault("traceback", held_out=True)
def worker_raises_its_own() -> object:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        return workers.submit(check_batch, 0.4).result()


class BatchRejected(Exception):
    pass


def check_batch(share_of_duplicates: float) -> None:
    if share_of_duplicates > 0.1:
        raise BatchRejected(f"{share_of_duplicates:.0%} of the batch was seen before")


@fault("traceback", held_out=True)
def logged_and_ended() -> None:
    class EarlyStop(Exception):
        pass

    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        raise EarlyStop("no better accuracy in 5 evaluations, best was 0.31")
    except EarlyStop:
        logging.getLogger("trainer").exception("training ended early")
        sys.exit(1)


@fault("unknown", held_out=True)
def shell_ends_silently() -> None:
    end_as("bash", "-c", "set -euo pipefail; sort /dev/null | grep -q accuracy; echo evaluated")


@fault("diverged", held_out=True)
def steps_too_large() -> object:
    import jax

    slope = jax.jit(jax.grad(lambda weight: (weight**2 - 1) ** 2))
    weight = jax.numpy.float32(3)
    with jax.debug_nans(True):
        for _ in range(50):
            weight -= 10 * slope(weight)
    return weight


# ---- memory, limits and signals ------------------------------------------------------------------


@fault("cpu-out-of-memory", held_out=True)
def memory_of_a_table() -> object:
    import pandas as pd

    with file_with(b"0.12345,0.67891\n" * 1_000_000, "train.csv") as path:
        limit(resource.RLIMIT_AS, used_bytes() + (24 << 20))
        return pd.read_csv(path, low_memory=False)


@fault("cpu-out-of-memory", held_out=True)
def memory_of_a_shuffle() -> None:
    lines = r"head -c 100000000 /dev/zero | tr '\0' '\n'"
    end_as("bash", "-c", f"ulimit -v 60000; {lines} | shuf > /dev/null")


@fault("limit-exceeded", held_out=True)
def processes() -> None:
    script = f"""
import os, resource, subprocess

resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
if os.geteuid() == 0:  # whom the limit does not hold
    os.setuid({NOBODY})
subprocess.run(["sort", "/dev/null"], check=True)
"""
    with file_with(script.encode(), "count.py") as path:
        end_as(sys.executable, path)


@fault("limit-exceeded", held_out=True)
def file_size_in_a_shell() -> None:
    with tempfile.TemporaryDirectory() as folder:
        write = f"head -c 1000000 /dev/zero > {folder}/weights"
        end_as("bash", "-c", f"ulimit -f 100; {write}; exit $?")


@fault("killed")
def launched_one_killed() -> None:
    subprocess.run(["bash", "-c", "kill -9 $$"], check=True)


@fault("core-dump", held_out=True)
def native_assertion() -> None:
    ctypes.CDLL(None)["__assert_fail"](b"input.dim() == 4", b"conv2d.cc", 118, b"forward")


@fault("invalid-memory-access", held_out=True)
def strides_out_of_bounds() -> object:
    import faulthandler

    import numpy as np

    faulthandler.enable()
    windows = np.lib.stride_tricks.as_strided(np.ones(8), (2,), (1 << 42,))
    return windows.sum()


# ---- disks and permissions -----------------------------------------------------------------------


@fault("disk-full", held_out=True)
def shared_memory_full() -> None:
    with tempfile.TemporaryFile(dir="/dev/shm") as batches:
        os.posix_fallocate(batches.fileno(), 0, 1 << 50)


@fault("output-error")
def results_without_a_folder() -> None:
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder:
        pd.DataFrame({"accuracy": [0.9]}).to_csv(Path(folder, "run-7", "results.csv"))


@fault("permission-error", held_out=True)
def forbidden_to_a_shell() -> None:
    with file_with(b"cat\ndog\n", "labels.txt") as path:
        path.parent.chmod(0o755)
        path.chmod(0)
        user = NOBODY if os.geteuid() == 0 else None
        sys.exit(subprocess.run(["bash", "-c", f"sort < {path}"], user=user).returncode)


@fault("permission-error", held_out=True)
def forbidden_weights() -> object:
    import h5py

    become_nobody()
    return h5py.File("/etc/weights.h5", "w")


# ---- network and HDFS ----------------------------------------------------------------------------


@fault("port-in-use", held_out=True)
def port_taken_of_asyncio() -> None:
    async def serve() -> None:
        first = await asyncio.start_server(print, "127.0.0.1", 0)
        await asyncio.start_server(print, *first.sockets[0].getsockname())

    asyncio.run(serve())


@fault("communication-error", held_out=True)
def coordinator_overrun() -> None:
    coordinator = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = [socket.socket() for _ in range(4)]
    for peer in waiting:
        peer.setblocking(False)
        peer.connect_ex(coordinator.getsockname())
    socket.create_connection(coordinator.getsockname(), timeout=1)


@fault("communication-error")
def server_silent() -> None:
    import grpc

    with socket.create_server(("127.0.0.1", 0)) as server:
        channel = grpc.insecure_channel(f"127.0.0.1:{server.getsockname()[1]}")
        channel.unary_unary("/rendezvous/join")(b"rank 1", timeout=1, wait_for_ready=True)


@fault("checkpoint-error", held_out=True)
def checkpoint_without_a_namenode() -> None:
    import hdfs_utils

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        where = f"hdfs://127.0.0.1:{nobody.getsockname()[1]}"
        hdfs_utils.connect(where, timeout_s=1).write_atomic("/ckpt/step-10", b"weights")
