"""Ways to fail as libraries and tools do that no other file here uses: written before any of them
was run, by somebody who had mended rules before.
"""

from __future__ import annotations

import atexit
import ctypes
import dbm
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http import HTTPStatus
from pathlib import Path

from .faults import fault
from .further_faults import become_nobody, end_as, file_with
from .program_faults import program, run_java, run_source

HELD: list[socket.socket] = []


def port_that_is_taken() -> int:
    server = socket.create_server(("127.0.0.1", 0))
    HELD.append(server)
    return int(server.getsockname()[1])


def server_that_answers(status: HTTPStatus) -> str:
    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

        def log_message(self, *_: object) -> None: ...

    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/shards/part-7.tar"


# ---- ports and services --------------------------------------------------------------------------


@fault("port-in-use", held_out=True)
def metrics_served_twice() -> None:
    import prometheus_client

    prometheus_client.start_http_server(port_that_is_taken(), addr="127.0.0.1")


@fault("port-in-use", held_out=True)
def dashboard_of_werkzeug() -> None:
    from werkzeug.serving import run_simple

    run_simple("127.0.0.1", port_that_is_taken(), lambda *_: [b""])


@fault("port-in-use")
def parameter_server_of_grpc() -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    grpc.server(ThreadPoolExecutor(1)).add_insecure_port(f"127.0.0.1:{port_that_is_taken()}")


@fault("port-in-use", held_out=True)
def port_of_a_tensorboard() -> None:
    with tempfile.TemporaryDirectory() as folder:
        end_as(
            sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--host", "127.0.0.1",
            "--port", str(port_that_is_taken()),
        )  # fmt: skip


@fault("communication-error", held_out=True)
def ensemble_that_is_away() -> None:
    from kazoo.client import KazooClient

    KazooClient(hosts="127.0.0.1:1").start(timeout=2)


@fault("communication-error", held_out=True)
def registry_behind_requests() -> object:
    import requests

    return requests.get("http://127.0.0.1:1/models/bert", timeout=5)


@fault("communication-error", held_out=True)
def download_service_overloaded() -> object:
    return urllib.request.urlopen(server_that_answers(HTTPStatus.SERVICE_UNAVAILABLE))


@fault("incorrect-inputs", held_out=True)
def shard_that_the_server_lacks() -> object:
    return urllib.request.urlopen(server_that_answers(HTTPStatus.NOT_FOUND))


@fault("permission-error", held_out=True)
def shard_that_the_server_refuses() -> object:
    import requests

    answer = requests.get(server_that_answers(HTTPStatus.FORBIDDEN), timeout=5)
    return answer.raise_for_status()


@program("communication-error", "psql")
def database_of_features_away() -> None:
    end_as("psql", "-h", "127.0.0.1", "-p", "1", "-c", "SELECT 1")


# ---- inputs --------------------------------------------------------------------------------------


@fault("incorrect-inputs", held_out=True)
def weights_not_in_the_hub_cache() -> object:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from huggingface_hub import snapshot_download

    with tempfile.TemporaryDirectory() as folder:
        return snapshot_download("nobody/no-such-model", cache_dir=folder)


@fault("incorrect-inputs", held_out=True)
def manifest_for_orjson() -> object:
    import orjson

    return orjson.loads(b'{"shards": ["a", "b"')


@fault("incorrect-inputs", held_out=True)
def block_for_zstandard() -> object:
    import zstandard

    return zstandard.ZstdDecompressor().decompress(b"PK\x03\x04 no frame of zstd" * 9)


@fault("incorrect-inputs", held_out=True)
def features_of_hdf5_cut_short() -> object:
    import h5py
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "features.h5")
        with h5py.File(path, "w") as file:
            file["x"] = np.zeros(100_000)
        os.truncate(path, 4000)
        return h5py.File(path)


@fault("incorrect-inputs", held_out=True)
def picture_that_is_a_bomb() -> object:
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = 100
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "0.png")
        Image.new("L", (400, 400)).save(path)
        return Image.open(path)


@fault("incorrect-inputs")
def cache_of_unknown_kind() -> object:
    with file_with(b"\x01\x02 nothing that dbm knows" * 9, "cache") as path:
        return dbm.open(str(path))


@fault("incorrect-inputs")
def sealed_input_with_another_key() -> object:
    from cryptography.fernet import Fernet

    return Fernet(Fernet.generate_key()).decrypt(Fernet(Fernet.generate_key()).encrypt(b"x"))


@program("incorrect-inputs", "sqlite3")
def index_for_sqlite_damaged() -> None:
    with file_with(b"SQLite format 3\0" + b"\xff" * 4000, "index.db") as path:
        end_as("sqlite3", "-bail", path, "SELECT * FROM samples")


@program("incorrect-inputs", "jq")
def manifest_for_jq() -> None:
    with file_with(b'{"shards": [1, 2', "manifest.json") as path:
        end_as("jq", ".shards[]", path)


@fault("incorrect-inputs", held_out=True)
def prompt_template_missing() -> object:
    import jinja2

    loader = jinja2.FileSystemLoader("/data/prompts")
    return jinja2.Environment(loader=loader).get_template("chat.j2")


# ---- mistakes ------------------------------------------------------------------------------------


@fault("semantic-error", held_out=True)
def prompt_with_an_unknown_field() -> object:
    import jinja2

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    return environment.from_string("{{ user.name }}").render()


@fault("semantic-error", held_out=True)
def option_for_click() -> None:
    import click

    @click.command()
    @click.option("--epochs", default=3)
    def train(epochs: int) -> None: ...

    train(["--epocs", "4"])


@fault("semantic-error", held_out=True)
def override_for_hydra() -> None:
    code = (
        "import hydra\n@hydra.main(version_base=None, config_path=None)\n"
        "def main(cfg): pass\nmain()\n"
    )
    run_source("step.py", code, sys.executable, "{}", "optimizer.rate=0.1")


@fault("semantic-error", held_out=True)
def settings_for_cattrs() -> object:
    import attrs
    import cattrs

    @attrs.define
    class Settings:
        epochs: int
        rate: float

    return cattrs.structure({"epochs": "many"}, Settings)


@fault("semantic-error", held_out=True)
def labels_fewer_than_samples() -> object:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit([[0.0], [1.0], [2.0]], [0, 1])


@fault("semantic-error", held_out=True)
def matrix_without_an_inverse() -> object:
    from scipy import linalg

    return linalg.inv([[1.0, 2.0], [2.0, 4.0]])


@fault("semantic-error")
def column_for_narwhals() -> object:
    import narwhals
    import pandas as pd

    return narwhals.from_native(pd.DataFrame({"a": [1]})).select("label")


@fault("semantic-error", held_out=True)
def task_of_dask_that_fails() -> object:
    import dask

    return dask.delayed(lambda shard: {"a": 1}[shard])("b").compute()


@fault("semantic-error")
def language_not_installed() -> None:
    import locale

    locale.setlocale(locale.LC_ALL, "xx_YY.UTF-8")


# ---- programs, libraries, syntax -----------------------------------------------------------------


@fault("import-error", held_out=True)
def package_run_that_is_missing() -> None:
    end_as(sys.executable, "-m", "trainer.main")


@program("import-error", "java")
def main_class_missing() -> None:
    with tempfile.TemporaryDirectory() as folder:
        end_as("java", "-cp", folder, "org.example.Train")


@fault("library-not-loaded", held_out=True)
def extension_that_is_no_library() -> None:
    with file_with(b"not a shared object", "kernels.so") as path:
        end_as(sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path.parent)!r}); "
               "import kernels")  # fmt: skip


@fault("library-not-loaded", held_out=True)
def library_for_cffi() -> object:
    import cffi

    return cffi.FFI().dlopen("libfast_attention.so.2")


@fault("library-not-loaded", held_out=True)
def symbol_that_the_library_lacks() -> object:
    return ctypes.CDLL("libm.so.6").fast_attention_forward


@program("library-not-loaded", "g++", held_out=False)
def kernels_linked_with_nothing() -> None:
    run_source("k.cc", "int main() { return 0; }\n", "g++", "{}", "-lcudart_of_nobody")


@program("syntax-error", "go")
def syntax_of_go() -> None:
    code = 'package main\nimport "os"\nfunc main() {\n  if len(os.Args) > 3 {\n'
    run_source("step.go", code, "env", "HOME=/tmp", "GOFLAGS=-mod=mod", "go", "vet", "{}")


@program("syntax-error", "jq")
def filter_for_jq() -> None:
    end_as("jq", "-n", ".shards | map(")


# ---- disks, rights, numbers ----------------------------------------------------------------------


@fault("disk-full", held_out=True)
def table_of_arrow_onto_a_full_disk() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open("/dev/full", "wb") as file:  # noqa: PTH123
        pq.write_table(pa.table({"x": list(range(100_000))}), file)


@fault("disk-full", held_out=True)
def logs_of_structlog_onto_a_full_disk() -> None:
    import logging

    logging.raiseExceptions = True
    handler = logging.FileHandler("/dev/full")
    handler.stream.write("step 7\n")
    handler.stream.flush()


@fault("permission-error", held_out=True)
def features_written_where_it_may_not() -> object:
    import h5py

    become_nobody()
    return h5py.File("/etc/features.h5", "w")


@fault("diverged", held_out=True)
def nan_found_by_jax() -> object:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_debug_nans", True)
    return jax.jit(lambda x: jnp.log(x - 2.0))(1.0)


@fault("invalid-memory-access", held_out=True)
def pointer_that_was_never_allocated() -> None:
    libc = ctypes.CDLL("libc.so.6")
    libc.free(ctypes.c_void_p(ctypes.addressof(ctypes.create_string_buffer(64)) + 16))


@fault("killed", held_out=True)
def worker_of_joblib_killed() -> object:
    from joblib import Parallel, delayed

    def step(number: int) -> int:
        if number == 3:
            os.kill(os.getpid(), 9)
        return number

    return Parallel(n_jobs=2)(delayed(step)(number) for number in range(8))


@program("semantic-error", "java")
def map_changed_in_a_loop_of_java() -> None:
    run_java("Map<Integer,Integer> m = new HashMap<>(Map.of(1, 1, 2, 2)); "
             "for (int k : m.keySet()) m.put(k + 9, k);")  # fmt: skip


# ---- failed, and waiting for the others at exit --------------------------------------------------


def never_return() -> None:
    time.sleep(3600)


@fault("semantic-error", held_out=True)
def thread_that_is_no_daemon() -> object:
    threading.Thread(target=never_return).start()
    return json.loads("{}")["learning_rate"]


@fault("import-error", held_out=True)
def waits_for_all_at_exit() -> None:
    atexit.register(never_return)
    import torch_geometric_of_nobody  # noqa: F401


@fault("incorrect-inputs", held_out=True)
def communicator_that_waits_in_its_destructor() -> object:
    class Communicator:
        def __del__(self) -> None:
            never_return()

    globals()["communicator"] = Communicator()
    return Path("/data/shard-00003.tar").read_bytes()


@fault("traceback", held_out=True)
def error_of_the_programs_own() -> None:
    class ShardExhausted(Exception): ...

    raise ShardExhausted("shard 7 gave 12 of 4096 samples")


@fault("semantic-error")
def child_of_a_launcher_fails() -> None:
    code = "def main(argv): return argv[3]\nimport sys\nmain(sys.argv)\n"
    with file_with(code.encode(), "worker.py") as path:
        subprocess.run([sys.executable, str(path)], check=True)
