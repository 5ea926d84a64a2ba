"""How programs fail through the frameworks that they use: written before any of them was run, by
somebody who knew the rules.
"""

from __future__ import annotations

import asyncio
import csv
import ctypes
import http.server
import io
import json
import logging
import os
import resource
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
from concurrent.futures import ProcessPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from .faults import fault, limit, used_bytes
from .further_faults import become_nobody, end_as, file_with

# ---- inputs --------------------------------------------------------------------------------------


@fault("incorrect-inputs", held_out=True)
def text_in_a_later_partition() -> object:
    import dask.dataframe as dd

    rows = "user,age\n" + "7,31\n" * 40_000 + "8,unknown\n"
    with file_with(rows.encode(), "users.csv") as path:
        return dd.read_csv(path, blocksize=100_000)["age"].mean().compute()


@fault("incorrect-inputs", held_out=True)
def examples_of_a_dataset_damaged() -> object:
    import datasets

    rows = b'{"text": "a", "label": 1}\n' * 9 + b'{"text": "b", "label": \n'
    with file_with(rows, "train.jsonl") as path:
        cache = str(path.parent)
        return datasets.load_dataset("json", data_files=str(path), cache_dir=cache)


@fault("incorrect-inputs")
def records_of_avro_cut_short() -> object:
    import fastavro

    schema = {"type": "record", "name": "Click", "fields": [{"name": "user", "type": "string"}]}
    whole = io.BytesIO()
    fastavro.writer(whole, schema, [{"user": "x" * 50}] * 1000)
    return list(fastavro.reader(io.BytesIO(whole.getvalue()[:-4000])))


@fault("incorrect-inputs", held_out=True)
def frame_of_zstandard_cut_short() -> object:
    import zstandard

    whole = zstandard.compress(os.urandom(20_000))
    return zstandard.decompress(whole[:9000])


@fault("incorrect-inputs", held_out=True)
def column_not_in_the_file() -> object:
    import pandas as pd

    with file_with(b"text,stars\ngood,5\n", "reviews.csv") as path:
        return pd.read_csv(path, usecols=["text", "label"])


@fault("incorrect-inputs", held_out=True)
def matrix_damaged() -> object:
    import scipy.io

    with file_with(b"%%MatrixMarket matrix coordinate real general\n3 3\n", "graph.mtx") as path:
        return scipy.io.mmread(path)


@fault("incorrect-inputs", held_out=True)
def archive_with_a_password() -> object:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("scan-1.txt", "confidential")
    data = bytearray(whole.getvalue())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    data[6] |= 1
    return zipfile.ZipFile(io.BytesIO(bytes(data))).read("scan-1.txt")


@fault("incorrect-inputs", held_out=True)
def shards_of_two_schemas() -> object:
    import pyarrow as pa

    old, new = pa.table({"tokens": [1]}), pa.table({"tokens": ["1"]})
    return pa.concat_tables([old, new])


@fault("incorrect-inputs", held_out=True)
def group_not_in_hdf5() -> object:
    import h5py

    with file_with(b"", "images.h5") as path:
        h5py.File(path, "w").close()
        with h5py.File(path) as images:
            return images["train/images"][:]


@fault("incorrect-inputs", held_out=True)
def annotations_cut_short() -> object:
    with file_with(b"<annotation><object><name>cat</name>", "000017.xml") as path:
        return ET.parse(path)


@fault("incorrect-inputs", held_out=True)
def length_promises_too_much() -> object:
    with file_with(struct.pack("<I", 3) + b"abc", "records.bin") as path, path.open("rb") as file:
        while True:
            (length,) = struct.unpack("<I", file.read(4))
            file.read(length)


@fault("incorrect-inputs", held_out=True)
def field_without_an_end() -> object:
    with file_with(b'1,"' + b"x" * 200_000 + b"\n", "notes.csv") as path, path.open() as file:
        return list(csv.reader(file))


@fault("incorrect-inputs", held_out=True)
def photo_of_too_many_pixels() -> object:
    from PIL import Image

    whole = io.BytesIO()
    Image.new("1", (4000, 4000)).save(whole, "PNG")
    Image.MAX_IMAGE_PIXELS = 1_000_000
    return Image.open(whole)


@fault("incorrect-inputs")
def reader_in_a_group_of_tasks() -> None:
    script = b"""
import asyncio


async def read(name):
    return open(name).read()


async def main():
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(read(f"/mnt/shards/shard-{number}.txt"))


asyncio.run(main())
"""
    with file_with(script, "train.py") as path:
        end_as(sys.executable, path)


@fault("incorrect-inputs", held_out=True)
def preparing_fails_in_a_child() -> None:
    script = b"import json\njson.loads('[1, 2')\n"
    with file_with(script, "prepare.py") as path:
        subprocess.run([sys.executable, path], check=True)


# ---- the program ---------------------------------------------------------------------------------


@fault("semantic-error", held_out=True)
def batches_of_two_sizes() -> object:
    import jax
    import jax.numpy as jnp

    return jax.vmap(jnp.dot)(jnp.ones((8, 3)), jnp.ones((7, 3)))


@fault("semantic-error", held_out=True)
def carry_changes_its_type() -> object:
    import jax
    import jax.numpy as jnp

    return jax.lax.scan(lambda total, x: (total + x, x), jnp.int32(0), jnp.ones(3))


@fault("semantic-error", held_out=True)
def gradients_of_another_model() -> object:
    import jax

    weights, gradients = {"w": 1.0, "b": 0.0}, {"w": 0.1}
    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


@fault("semantic-error")
def settings_that_pydantic_refuses() -> object:
    from pydantic import BaseModel

    class Settings(BaseModel):
        epochs: int
        rate: float

    return Settings(epochs="many", rate=0.1)  # type: ignore[arg-type]


@fault("semantic-error")
def variable_not_in_a_template() -> object:
    import jinja2

    template = jinja2.Template("{{ message.role }}", undefined=jinja2.StrictUndefined)
    return template.render(messages=[])


@fault("semantic-error")
def optimizer_unknown() -> object:
    class Optimizer(Enum):
        SGD = "sgd"
        ADAM = "adam"

    return Optimizer("adamw")


@fault("semantic-error")
def option_that_click_refuses() -> None:
    script = b"""
import click


@click.command()
@click.option("--rate", type=float)
def train(rate):
    print(rate)


train(["--rate", "fast"])
"""
    with file_with(script, "train.py") as path:
        end_as(sys.executable, path)


@fault("semantic-error", held_out=True)
def divided_in_a_delayed_task() -> object:
    import dask

    return dask.delayed(lambda right, total: right / total)(0, 0).compute()  # type: ignore[attr-defined]


@fault("semantic-error")
def loop_in_a_loop() -> None:
    async def evaluate() -> None:
        await asyncio.sleep(0)

    async def train() -> None:
        asyncio.run(evaluate())

    asyncio.run(train())


@fault("semantic-error", held_out=True)
def model_with_a_lock_for_workers() -> object:
    from joblib import Parallel, delayed

    class Model:
        lock = threading.Lock()

        def __init__(self) -> None:
            self.own = threading.Lock()

        def fit(self, fold: int) -> int:
            return fold

    return Parallel(n_jobs=2)(delayed(Model().fit)(fold) for fold in range(4))


@fault("import-error", held_out=True)
def store_without_its_plugin() -> object:
    import fsspec

    return fsspec.open("s3://bucket/train.csv").open()


@fault("import-error", held_out=True)
def engine_not_installed() -> object:
    import pandas as pd

    with file_with(b"PAR1", "train.parquet") as path:
        return pd.read_parquet(path, engine="fastparquet")


@fault("syntax-error", held_out=True)
def notebook_saved_as_a_script() -> None:
    script = b"%matplotlib inline\nimport json\nprint(json)\n"
    with file_with(script, "train.py") as path:
        end_as(sys.executable, path)


@fault("library-not-loaded", held_out=True)
def library_of_cffi_missing() -> object:
    import cffi

    return cffi.FFI().dlopen("libcublas.so.9")


@fault("command-not-found", held_out=True)
def tool_missing_in_a_pipe() -> None:
    end_as("bash", "-c", "set -o pipefail; echo shard-1 | xargs nvprof --csv")


@fault("command-not-found")
def script_without_a_first_line() -> None:
    with file_with(b"echo training\n", "train") as path:
        path.chmod(0o755)
        subprocess.run([path], check=True)


@fault("traceback", held_out=True)
def features_too_old() -> object:
    import dask

    class StaleFeatures(Exception):
        pass

    def load(day: str) -> str:
        raise StaleFeatures(f"features of {day} are older than the model")

    return dask.compute(*(dask.delayed(load)(day) for day in ("monday", "tuesday")))  # type: ignore[attr-defined]


@fault("traceback", held_out=True)
def no_better_for_long() -> None:
    async def train() -> None:
        raise RuntimeError("no improvement in 10 evaluations")

    asyncio.run(train())


@fault("unknown", held_out=True)
def accuracy_too_low() -> None:
    print("accuracy 0.31, wanted 0.74", flush=True)
    sys.exit(4)


@fault("declared-transient", held_out=True)
def asks_again_through_a_shell() -> None:
    end_as("bash", "-c", f"{sys.executable} -c 'raise SystemExit(193)'; exit $?")


@fault("diverged", held_out=True)
def loss_not_a_number() -> None:
    import jax.numpy as jnp

    loss = jnp.log(jnp.float32(-1))
    assert bool(jnp.isfinite(loss)), f"bad loss {loss}"


@fault("diverged", held_out=True)
def infinity_seen_by_jax() -> object:
    import jax
    import jax.numpy as jnp

    with jax.debug_infs(True):
        return jax.jit(jnp.exp)(jnp.float32(1000))


# ---- memory, limits and signals ------------------------------------------------------------------


@fault("cpu-out-of-memory")
def memory_of_jax() -> object:
    import jax.numpy as jnp

    jnp.ones(3).block_until_ready()
    limit(resource.RLIMIT_AS, used_bytes() + (256 << 20))
    return jnp.ones(1 << 34).block_until_ready()


@fault("cpu-out-of-memory", held_out=True)
def memory_of_a_preparing_child() -> None:
    script = b"""
import resource

resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))
frames = [bytes(1920 * 1080 * 3) for _ in range(999)]
"""
    with file_with(script, "prepare.py") as path:
        subprocess.run([sys.executable, path], check=True)


@fault("limit-exceeded", held_out=True)
def log_of_each_shard_open() -> None:
    limit(resource.RLIMIT_NOFILE, 64)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(99):
            logging.getLogger().addHandler(logging.FileHandler(Path(folder, f"{number}.log")))


@fault("killed", held_out=True)
def worker_of_an_executor_killed() -> object:
    with ProcessPoolExecutor(1) as workers:
        return workers.submit(_kill_this).result()


def _kill_this() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@fault("core-dump", held_out=True)
def terminated_by_the_library() -> None:
    ctypes.CDLL("libstdc++.so.6")["_ZSt9terminatev"]()


# ---- disks, permissions and network --------------------------------------------------------------


@fault("disk-full")
def database_of_trials_full() -> None:
    with sqlite3.connect(":memory:") as trials:
        trials.execute("pragma max_page_count = 3")
        trials.execute("create table trial (settings text)")
        for _ in range(99):
            trials.execute("insert into trial values (?)", ["x" * 4000])


@fault("disk-full", held_out=True)
def results_packed_onto_a_full_disk() -> None:
    with file_with(os.urandom(100_000), "results.csv") as path:
        end_as("bash", "-c", f"set -e; gzip -c {path} > /dev/full; echo packed")


@fault("permission-error", held_out=True)
def cache_of_joblib_forbidden() -> object:
    from joblib import Memory

    become_nobody()
    return Memory("/root/cache", verbose=0).cache(json.dumps)([1])


@fault("permission-error", held_out=True)
def priority_raised() -> None:
    become_nobody()
    os.setpriority(os.PRIO_PROCESS, 0, -10)


@fault("permission-error", held_out=True)
def port_below_1024() -> None:
    become_nobody()
    socket.create_server(("127.0.0.1", 81))


class _Failing(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(502)

    def log_message(self, *_args: Any) -> None:
        pass


@fault("communication-error", held_out=True)
def artifacts_behind_a_broken_gateway() -> None:
    import requests

    server = http.server.HTTPServer(("127.0.0.1", 0), _Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = requests.Session()
    session.trust_env = False
    session.get(f"http://127.0.0.1:{server.server_port}/tokenizer.json").raise_for_status()


@fault("communication-error", held_out=True)
def zookeeper_away() -> None:
    from kazoo.client import KazooClient

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        KazooClient(f"127.0.0.1:{nobody.getsockname()[1]}").start(timeout=2)


@fault("port-in-use", held_out=True)
def port_of_metrics_taken() -> None:
    import prometheus_client

    with socket.create_server(("127.0.0.1", 0)) as other:
        prometheus_client.start_http_server(other.getsockname()[1], "127.0.0.1")


@fault("port-in-use", held_out=True)
def port_of_the_coordinator_taken() -> None:
    script = b"""
import socket

import jax

other = socket.create_server(("127.0.0.1", 0))
address = f"127.0.0.1:{other.getsockname()[1]}"
jax.distributed.initialize(address, 1, 0, initialization_timeout=10)
"""
    with file_with(script, "train.py") as path:
        end_as(sys.executable, path)


@fault("output-error", held_out=True)
def results_of_yesterday_there() -> None:
    with file_with(b"0.9", "accuracy.txt") as path:
        (path.parent / "results").mkdir()
        shutil.copytree(path.parent, path.parent / "results")
