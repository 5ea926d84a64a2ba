"""Ways to fail, each a generator of its own: really done, not printed.

``FAULTS`` says of each what it is. ``HELD_OUT`` are those that no rule may be written or mended
from; the others may be looked at.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import importlib
import json
import mmap
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

FAULTS: dict[str, tuple[str, Callable[[], object]]] = {}
"""Name: class, and what to do."""

HELD_OUT: set[str] = set()


def fault(
    failure: str, *, held_out: bool = False
) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def add(do: Callable[[], object]) -> Callable[[], object]:
        FAULTS[do.__name__] = (failure, do)
        if held_out:
            HELD_OUT.add(do.__name__)
        return do

    return add


def limit(kind: int, amount: int) -> None:
    resource.setrlimit(kind, (amount, resource.getrlimit(kind)[1]))


def temporary(data: bytes, suffix: str = "") -> Path:
    handle, name = tempfile.mkstemp(suffix)
    os.write(handle, data)
    os.close(handle)
    return Path(name)


def used_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


# ---- modules and programs ------------------------------------------------------------------------


@fault("import-error")
def module_missing() -> object:
    return importlib.import_module("torchvison")


@fault("import-error", held_out=True)
def submodule_missing() -> object:
    return importlib.import_module("json.speedup")


@fault("import-error", held_out=True)
def name_missing() -> None:
    exec("from collections import Mapping2")


@fault("syntax-error")
def broken_module() -> None:
    path = temporary(b"def f(:\n    pass\n", ".py")
    sys.path.insert(0, str(path.parent))
    importlib.import_module(path.stem)


@fault("syntax-error", held_out=True)
def wrong_indent() -> None:
    path = temporary(b"if True:\nprint(1)\n", ".py")
    sys.path.insert(0, str(path.parent))
    importlib.import_module(path.stem)


@fault("syntax-error", held_out=True)
def shell_syntax() -> None:
    sys.exit(subprocess.run(["bash", "-c", "if then; fi ("]).returncode)


@fault("library-not-loaded")
def library_missing() -> object:
    return ctypes.CDLL("libcudnn_nope.so.8")


@fault("library-not-loaded", held_out=True)
def library_damaged() -> object:
    return ctypes.CDLL(str(temporary(b"\x7fELF" + b"\0" * 200, ".so")))


@fault("library-not-loaded")
def symbol_missing() -> object:
    return ctypes.CDLL(None).cudnn_create_nope


@fault("command-not-found")
def command_missing() -> None:
    sys.exit(subprocess.run(["bash", "-c", "deepspeedd train.py"]).returncode)


@fault("command-not-found")
def not_executable() -> None:
    sys.exit(subprocess.run(["sh", "-c", str(temporary(b"x"))]).returncode)


@fault("semantic-error")
def wrong_argument() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int)
    parser.parse_args(["--epocs", "3"])


@fault("semantic-error", held_out=True)
def wrong_keyword() -> object:
    return json.dumps({}, indentation=3)  # type: ignore[call-arg]


@fault("semantic-error")
def attribute_missing() -> object:
    return json.dumpz  # type: ignore[attr-defined]


@fault("semantic-error", held_out=True)
def name_unknown() -> object:
    return eval("learning_rat")


@fault("semantic-error", held_out=True)
def shapes_differ() -> object:
    import numpy as np

    return np.ones((3, 4)) @ np.ones((3, 4))


@fault("semantic-error")
def cannot_broadcast() -> object:
    import numpy as np

    return np.ones((3, 4)) + np.ones((5,))


@fault("semantic-error", held_out=True)
def key_missing() -> object:
    return {"lr": 1}["momentum"]


@fault("semantic-error", held_out=True)
def assertion() -> None:
    raise AssertionError("labels must be below the number of classes")


# ---- inputs --------------------------------------------------------------------------------------


@fault("incorrect-inputs")
def file_missing() -> object:
    return Path("/data/train/part-00000").open()


@fault("incorrect-inputs", held_out=True)
def directory_for_a_file() -> object:
    return Path("/tmp").open()


@fault("incorrect-inputs", held_out=True)
def numpy_file_missing() -> object:
    import numpy as np

    return np.load("/data/mnist.npz")


@fault("incorrect-inputs")
def gzip_damaged() -> object:
    return gzip.open(temporary(b"no gzip")).read()


@fault("incorrect-inputs", held_out=True)
def gzip_truncated() -> object:
    return gzip.open(temporary(gzip.compress(os.urandom(9999))[:5000])).read()


@fault("incorrect-inputs", held_out=True)
def json_damaged() -> object:
    return json.loads('{"image": "a.png", "label": ')


@fault("incorrect-inputs")
def not_utf8() -> object:
    return temporary(b"abc\xff\xfe").read_text("utf-8")


@fault("incorrect-inputs", held_out=True)
def pickle_damaged() -> object:
    return pickle.loads(b"no pickle")


@fault("incorrect-inputs", held_out=True)
def zip_damaged() -> object:
    return zipfile.ZipFile(temporary(b"no zip at all"))


@fault("incorrect-inputs")
def pickle_empty() -> object:
    return pickle.load(temporary(b"").open("rb"))


@fault("incorrect-inputs")
def array_truncated() -> object:
    import numpy as np

    path = temporary(b"", ".npy")
    np.save(path, np.ones(1000))
    path.write_bytes(path.read_bytes()[:500])
    return np.load(path)


@fault("incorrect-inputs", held_out=True)
def parquet_damaged() -> object:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(temporary(b"PAR0" * 20))


@fault("incorrect-inputs", held_out=True)
def hdfs_utils_missing() -> object:
    from hdfs_utils.backends.local import LocalFileSystem

    return LocalFileSystem().read_bytes("/data/none", 100)


@fault("permission-error")
def forbidden() -> object:
    path = temporary(b"x")
    path.chmod(0o600)
    os.setuid(65534)
    return path.read_bytes()


@fault("permission-error", held_out=True)
def forbidden_directory() -> None:
    os.setuid(65534)
    Path("/root/ckpt").mkdir()


# ---- memory and limits ---------------------------------------------------------------------------


@fault("cpu-out-of-memory")
def memory_python() -> object:
    limit(resource.RLIMIT_AS, used_bytes() + (64 << 20))
    return [bytearray(1 << 24) for _ in range(99)]


@fault("cpu-out-of-memory", held_out=True)
def memory_numpy() -> object:
    import numpy as np

    limit(resource.RLIMIT_AS, used_bytes() + (64 << 20))
    return np.ones((1 << 30,))


@fault("cpu-out-of-memory", held_out=True)
def memory_fork() -> object:
    limit(resource.RLIMIT_AS, used_bytes() + (8 << 20))
    return mmap.mmap(-1, 1 << 30)


@fault("limit-exceeded")
def cpu_time() -> None:
    limit(resource.RLIMIT_CPU, int(time.process_time()) + 1)
    while True:
        pass


@fault("limit-exceeded", held_out=True)
def file_size() -> None:
    limit(resource.RLIMIT_FSIZE, 1 << 20)
    temporary(b"").write_bytes(b"x" * (2 << 20))


@fault("limit-exceeded", held_out=True)
def open_files() -> object:
    limit(resource.RLIMIT_NOFILE, 64)
    return [socket.socket() for _ in range(99)]


@fault("disk-full")
def device_full() -> None:
    with Path("/dev/full").open("wb") as file:
        file.write(b"x" * 100_000)


@fault("disk-full", held_out=True)
def device_full_numpy() -> None:
    import numpy as np

    with Path("/dev/full").open("wb") as file:
        np.save(file, np.ones(100_000))


# ---- signals and exit codes ----------------------------------------------------------------------


@fault("invalid-memory-access")
def null_pointer() -> object:
    return ctypes.string_at(0)


@fault("invalid-memory-access", held_out=True)
def bus_error() -> object:
    path = temporary(b"x" * 8192)
    with path.open("r+b") as file:
        view = mmap.mmap(file.fileno(), 8192)
        os.ftruncate(file.fileno(), 0)
        return view[5000]


@fault("invalid-memory-access", held_out=True)
def shell_segfault() -> None:
    crash = f"{sys.executable} -c 'import ctypes; ctypes.string_at(0)'"
    sys.exit(subprocess.run(["bash", "-c", f"{crash}; exit $?"]).returncode)


@fault("core-dump")
def abort() -> None:
    os.abort()


@fault("core-dump", held_out=True)
def fatal_python() -> None:
    import faulthandler

    faulthandler.enable()
    ctypes.pythonapi.Py_FatalError(b"bad refcount")


@fault("killed")
def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@fault("killed", held_out=True)
def terminated() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@fault("killed", held_out=True)
def shell_killed() -> None:
    sys.exit(subprocess.run(["bash", "-c", "(kill -9 $BASHPID); exit $?"]).returncode)


@fault("declared-transient")
def asks_again() -> None:
    sys.exit(193)


@fault("declared-permanent", held_out=True)
def gives_up() -> None:
    sys.exit(194)


@fault("unknown")
def silent_code() -> None:
    sys.exit(3)


@fault("unknown", held_out=True)
def silent_exit() -> None:
    os._exit(17)


@fault("traceback")
def own_exception() -> None:
    raise RuntimeError("the tokenizer and the model do not belong together")


@fault("traceback", held_out=True)
def own_class() -> None:
    class PolicyError(Exception):
        pass

    raise PolicyError("reward below the threshold")


@fault("diverged")
def loss_is_nan() -> None:
    raise FloatingPointError("loss is nan at step 12")


@fault("diverged", held_out=True)
def numpy_invalid() -> object:
    import numpy as np

    np.seterr(all="raise")
    return np.log(np.zeros(3) - 1)


# ---- network and HDFS ----------------------------------------------------------------------------


@fault("port-in-use")
def port_taken() -> None:
    first, second = socket.socket(), socket.socket()
    first.bind(("127.0.0.1", 0))
    first.listen()
    second.bind(first.getsockname())


@fault("port-in-use", held_out=True)
def port_taken_by_a_server() -> object:
    import http.server

    first = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    return http.server.HTTPServer(first.server_address[:2], http.server.BaseHTTPRequestHandler)


@fault("communication-error", held_out=True)
def address_not_here() -> None:
    socket.socket().bind(("192.0.2.1", 0))


@fault("communication-error")
def name_unknown_to_dns() -> object:
    return socket.getaddrinfo("worker-7.invalid", 80)


@fault("checkpoint-error", held_out=True)
def namenode_away() -> None:
    from hdfs_utils.errors import Unavailable

    try:
        socket.create_connection(("127.0.0.1", 1))
    except OSError as error:
        raise Unavailable("the NameNode does not answer", path="/ckpt/step-10") from error


@fault("checkpoint-error")
def safe_mode() -> None:
    from hdfs_utils.errors import Unavailable

    raise Unavailable("Cannot create /ckpt. Name node is in safe mode.", path="/ckpt")


# ---- threads ------------------------------------------------------------------------------------


@fault("incorrect-inputs", held_out=True)
def loader_thread() -> None:
    def load() -> None:
        try:
            Path("/data/shard-7").read_bytes()
        except OSError:
            import traceback

            traceback.print_exc()
            os._exit(1)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()


# ---- more of each, held out ----------------------------------------------------------------------


@fault("import-error", held_out=True)
def circular_import() -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "circle_a.py").write_text("from circle_b import b\na = 1\n")
    (folder / "circle_b.py").write_text("from circle_a import a\nb = 1\n")
    sys.path.insert(0, str(folder))
    importlib.import_module("circle_a")


@fault("command-not-found")
def command_missing_for_python() -> None:
    subprocess.run(["nvidia-smy", "-L"], check=True)


@fault("permission-error", held_out=True)
def program_not_executable() -> None:
    subprocess.run([str(temporary(b"#!/bin/sh\n"))], check=True)


@fault("semantic-error", held_out=True)
def index_too_large() -> object:
    import numpy as np

    return np.arange(10)[12]


@fault("semantic-error", held_out=True)
def wrong_operand() -> object:
    return "3" + 4  # type: ignore[operator]


@fault("incorrect-inputs")
def bzip2_damaged() -> object:
    import bz2

    return bz2.open(temporary(b"BZh9 no bzip2 at all" * 9)).read()


@fault("incorrect-inputs", held_out=True)
def tar_damaged() -> object:
    import tarfile

    return tarfile.open(temporary(os.urandom(2000), ".tar"))


@fault("incorrect-inputs", held_out=True)
def csv_ragged() -> object:
    import pandas as pd

    return pd.read_csv(temporary(b"a,b\n1,2\n1,2,3,4\n"))


@fault("incorrect-inputs")
def image_damaged() -> object:
    from PIL import Image

    return Image.open(temporary(b"\x89PNG\r\n\x1a\n no image", ".png")).load()


@fault("incorrect-inputs", held_out=True)
def hdf5_damaged() -> object:
    import h5py

    return h5py.File(temporary(b"\x89HDX" * 50, ".h5"))


@fault("cpu-out-of-memory", held_out=True)
def memory_arrow() -> object:
    import pyarrow as pa

    limit(resource.RLIMIT_AS, used_bytes() + (64 << 20))
    return pa.allocate_buffer(1 << 33)


@fault("disk-full", held_out=True)
def device_full_shell() -> None:
    sys.exit(subprocess.run(["bash", "-c", "head -c 1000000 /dev/zero > /dev/full"]).returncode)


@fault("killed")
def killed_by_timeout() -> None:
    sys.exit(subprocess.run(["timeout", "-s", "KILL", "0.5", "sleep", "9"]).returncode)


@fault("declared-permanent", held_out=True)
def gives_up_in_a_shell() -> None:
    sys.exit(subprocess.run(["bash", "-c", "exit 194"]).returncode)


@fault("diverged")
def loss_is_infinite() -> None:
    print("Loss is inf, stopping training", flush=True)
    sys.exit(1)


@fault("port-in-use", held_out=True)
def port_taken_of_grpc() -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    first = socket.socket()
    first.bind(("127.0.0.1", 0))
    first.listen()
    server = grpc.server(ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
    server.add_insecure_port(f"127.0.0.1:{first.getsockname()[1]}")


@fault("communication-error")
def coordinator_refuses() -> None:
    socket.create_connection(("127.0.0.1", 1), timeout=5)
