"""What goes wrong every day: written from what the classes mean, the rules not
looked at, and as often of a class as it happens.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import multiprocessing
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.managers import SyncManager
from pathlib import Path

from .faults import fault, limit, used_bytes
from .further_faults import become_nobody, end_as, file_with

# ---- inputs --------------------------------------------------------------------------------------


@fault("incorrect-inputs", held_out=True)
def pattern_without_files() -> object:
    import dask.bag

    return dask.bag.read_text("/data/clicks/2024-*.jsonl")


@fault("incorrect-inputs", held_out=True)
def nothing_there_to_copy() -> None:
    with file_with(b"", "scratch") as path:
        copy = f"cp -r /mnt/datasets/imagenet/train {path.parent}"
        end_as("bash", "-c", f"set -e; {copy}; echo copied")


@fault("incorrect-inputs", held_out=True)
def pointer_of_git_lfs() -> object:
    import numpy as np

    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 8128\n"
    with file_with(pointer, "embeddings.npy") as path:
        return np.load(path)


@fault("incorrect-inputs")
def gaps_in_the_features() -> object:
    import numpy as np
    from sklearn.linear_model import LinearRegression

    with file_with(b"2,51,700\n3,,950\n4,98,1200\n", "flats.csv") as path:
        flats = np.genfromtxt(path, delimiter=",")
    return LinearRegression().fit(flats[:, :2], flats[:, 2])


@fault("incorrect-inputs")
def date_unreadable() -> object:
    import pandas as pd

    with file_with(b"day,sales\n2024-02-28,7\n2024-02-30,9\n", "sales.csv") as path:
        sales = pd.read_csv(path)
    return pd.to_datetime(sales["day"], format="%Y-%m-%d")


@fault("incorrect-inputs", held_out=True)
def line_cut_short() -> object:
    import pandas as pd

    with file_with(b'{"text": "a", "label": 1}\n{"text": "b", "la', "train.jsonl") as path:
        return pd.read_json(path, lines=True)


# ---- the program ---------------------------------------------------------------------------------


@fault("semantic-error", held_out=True)
def return_forgotten() -> object:
    def doubled(batch: dict[str, int]):  # type: ignore[no-untyped-def]
        batch["image"] *= 2

    return doubled({"image": 1})["image"]


@fault("semantic-error", held_out=True)
def layers_do_not_fit() -> object:
    import jax
    import jax.numpy as jnp

    @jax.jit
    def forward(images: jax.Array) -> jax.Array:
        hidden = jnp.dot(images, jnp.ones((784, 256)))
        return jnp.dot(hidden, jnp.ones((128, 10)))

    return forward(jnp.ones((32, 784)))


@fault("semantic-error", held_out=True)
def metrics_not_for_json() -> object:
    import numpy as np

    return json.dumps({"epoch": 3, "accuracy": np.float32(0.91)})


@fault("semantic-error", held_out=True)
def method_of_an_older_pandas() -> object:
    import pandas as pd

    results = pd.DataFrame({"epoch": [1], "accuracy": [0.8]})
    return results.append({"epoch": 2, "accuracy": 0.9}, ignore_index=True)


@fault("semantic-error", held_out=True)
def rate_read_as_text() -> object:
    import yaml

    with file_with(b"optimizer: sgd\nlr: 1e-3\n", "config.yaml") as path:
        settings = yaml.safe_load(path.read_text())
    if settings["lr"] <= 0:
        raise ValueError("lr must be above 0")
    return settings


@fault("semantic-error", held_out=True)
def argument_left_out() -> object:
    class Attention:
        def forward(self, query: float, key: float, value: float) -> float:
            return query * key * value

    return Attention().forward(0.1, 0.2)  # type: ignore[call-arg]


@fault("import-error", held_out=True)
def run_as_a_module_elsewhere() -> None:
    end_as(sys.executable, "-m", "trainer.main", "--epochs", "3")


@fault("import-error", held_out=True)
def class_saved_by_other_code() -> object:
    with file_with(b"class Net:\n    layers = 3\n", "nets_of_last_year.py") as path:
        sys.path.insert(0, str(path.parent))
        saved = pickle.dumps(importlib.import_module(path.stem).Net())
        del sys.modules[path.stem], sys.path[0]
    return pickle.loads(saved)


@fault("import-error", held_out=True)
def environment_not_activated() -> None:
    with file_with(b"import sys\n\nimport numpy as np\n\nprint(np.ones(3))\n", "train.py") as path:
        end_as(sys.executable, "-I", "-S", path)


@fault("syntax-error", held_out=True)
def script_for_python_2() -> None:
    with file_with(b"for epoch in range(3):\n    print 'epoch', epoch\n", "train.py") as path:
        end_as(sys.executable, path)


@fault("library-not-loaded", held_out=True)
def extension_for_another_cuda() -> object:
    """Linked with a library that is not there, the longest name that the linker's table takes."""
    spec = importlib.util.find_spec("scipy.fft._pocketfft.pypocketfft")
    assert spec is not None
    assert spec.origin is not None
    other = Path(spec.origin).read_bytes().replace(b"libstdc++.so.6", b"libcudart.so.9")
    with file_with(other, "pypocketfft.so") as path:
        copy = importlib.util.spec_from_file_location("pypocketfft", path)
        assert copy is not None
        return importlib.util.module_from_spec(copy)


@fault("command-not-found", held_out=True)
def interpreter_of_another_node() -> None:
    end_as("bash", "-c", "/opt/conda/envs/train-py38/bin/python train.py --epochs 3")


@fault("command-not-found", held_out=True)
def launcher_misspelt() -> None:
    subprocess.run("torchrn --nproc_per_node=4 train.py", shell=True, check=True)


@fault("traceback", held_out=True)
def worse_than_before() -> object:
    def evaluate(accuracy: float) -> float:
        if accuracy < 0.74:
            raise Exception(f"accuracy {accuracy} of the candidate, 0.74 of the one in use")
        return accuracy

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(evaluate, [0.81, 0.31]))


@fault("unknown", held_out=True)
def ends_with_a_remark() -> None:
    sys.exit("Not trained: the model of yesterday is still good.")


# ---- memory, limits and signals ------------------------------------------------------------------


@fault("cpu-out-of-memory", held_out=True)
def memory_of_a_worker() -> object:
    with multiprocessing.get_context("spawn").Pool(1) as workers:
        return workers.map(decode_whole_video, ["cats.mp4"])


def decode_whole_video(_name: str) -> int:
    limit(resource.RLIMIT_AS, used_bytes() + (64 << 20))
    frames = [bytes(1920 * 1080 * 3) for _ in range(999)]
    return len(frames)


@fault("cpu-out-of-memory", held_out=True)
def memory_in_native_code() -> object:
    new = ctypes.CDLL("libstdc++.so.6")["_Znwm"]
    return new(ctypes.c_size_t(1 << 62))


@fault("limit-exceeded", held_out=True)
def shards_all_open() -> object:
    import h5py

    with file_with(b"", "shard.h5") as first:
        names = [first.with_name(f"shard-{number}.h5") for number in range(99)]
        for name in names:
            h5py.File(name, "w").close()
        limit(resource.RLIMIT_NOFILE, 64)
        return [h5py.File(name, "r") for name in names]


@fault("killed")
def parallel_worker_killed() -> object:
    from joblib import Parallel, delayed

    return Parallel(n_jobs=2)(delayed(fit_fold)(fold) for fold in range(4))


def fit_fold(fold: int) -> int:
    if fold == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return fold


@fault("invalid-memory-access", held_out=True)
def native_step_leaves_its_buffer() -> None:
    script = b"""
import ctypes

pixels = ctypes.create_string_buffer(224 * 224 * 3)
ctypes.memset(pixels, 0, 224 * 224 * 3 << 20)
"""
    with file_with(script, "augment.py") as path:
        subprocess.run([sys.executable, path], check=True)


# ---- disks, permissions and network --------------------------------------------------------------


@fault("disk-full", held_out=True)
def cache_of_examples_full() -> None:
    import pyarrow as pa

    examples = pa.table({"tokens": list(range(100_000))})
    with (
        pa.OSFile("/dev/full", "wb") as cache,
        pa.ipc.new_stream(cache, examples.schema) as writer,
    ):
        writer.write_table(examples)


@fault("permission-error", held_out=True)
def folder_of_somebody_else() -> None:
    become_nobody()
    Path("/usr").chmod(0o755)


@fault("communication-error", held_out=True)
def tracking_server_away() -> None:
    import requests

    with socket.socket() as nobody, requests.Session() as session:
        session.trust_env = False
        nobody.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        session.post(f"{server}/api/2.0/mlflow/runs/log-metric", json={"loss": 0.3}, timeout=5)


@fault("port-in-use")
def port_taken_of_the_work_queue() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        SyncManager(other.getsockname(), b"work", ctx=multiprocessing.get_context("spawn")).start()
