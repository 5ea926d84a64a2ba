"""``make demo``: a real Hadoop cluster on this machine, real data on HDFS, a job trained on it.

Types the commands that a user would type, shows them, and leaves the cluster up to play with.
``make demo-down`` (``tools/demo.py --down``) takes it down.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from hdfs_utils import FileSystem, connect
from hdfs_utils.errors import NotFound
from yarnam.cluster import EmbeddedCluster

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CLUSTER = "demo"
EXAMPLE = Path("docs/examples/digits")
DATA = "hdfs:///examples/digits/data"
# As the example's spec says; tests/unit/examples holds the two together.
OUTPUT = "/examples/digits/output"
CHECKPOINTS = "/examples/digits/checkpoints"

IS_TERMINAL = sys.stdout.isatty()


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if IS_TERMINAL else f"\n{text}", flush=True)


def run(*command: str, environ: dict[str, str]) -> None:
    """Show a command and run it; the demo ends with its exit code when it fails."""
    print(f"$ {shlex.join(command)}", flush=True)
    code = subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode
    if code:
        sys.exit(code if code > 0 else 128 - code)


def own_environ() -> dict[str, str]:
    """With this virtual environment first on PATH: the cluster's nodes pass PATH on, so that
    ``python3`` in the job is the Python that has JAX."""
    path = os.environ.get("PATH") or os.defpath
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{path}"}


def start_afresh(storage: FileSystem) -> None:
    """An earlier demo's checkpoints would make this one a short one."""
    for path in (OUTPUT, CHECKPOINTS):
        storage.delete(path, recursive=True)


def newest_checkpoint(storage: FileSystem) -> str:
    try:
        entries = [entry.path for entry in storage.list(CHECKPOINTS)]
    except NotFound:
        return "none"
    return max(entries, default="none")


def show_result(storage: FileSystem, seconds: float) -> None:
    result = json.loads(storage.read_bytes(f"{OUTPUT}/result.json"))
    title("Done")
    print(f"test accuracy      {result['test_accuracy']:.4f}, on digits not trained on")
    print(f"trained by         {result['processes']} processes on 2 nodes")
    print(f"newest checkpoint  {storage.uri}{newest_checkpoint(storage)}")
    print(f"result             {storage.uri}{OUTPUT}/result.json")
    print(f"whole demo         {seconds:.0f} s")


def show_next() -> None:
    title("The cluster is still up. Try:")
    print(f"""\
  . .venv/bin/activate
  eval "$(yarnam cluster env --name {CLUSTER})"
  yarnam status digits         # the job that just ran
  yarnam logs digits --rank 0  # what its first process printed
  yarnam submit docs/examples/hello/spec.yaml
  yarnam cluster status --name {CLUSTER}
  hdfs dfs -ls -R /examples    # Hadoop's own tools work too
  make demo-down               # take the cluster down

First job of your own: docs/tutorial/first-job.md""")


def demo() -> None:
    started = time.monotonic()
    environ = own_environ()
    title("1. A real Hadoop cluster on this machine")
    run("yarnam", "cluster", "up", "--name", CLUSTER, environ=environ)
    cluster = EmbeddedCluster(name=CLUSTER)
    for name, value in cluster.env().items():
        environ[name] = f"{value}{os.pathsep}{environ['PATH']}" if name == "PATH" else value
    storage = connect("hdfs:///", conf_dir=str(cluster.conf_dir))
    title("2. Real data on HDFS: 1,797 scanned digits")
    run("python3", str(EXAMPLE / "prepare.py"), DATA, environ=environ)
    start_afresh(storage)
    title("3. A job: two tasks of two processes, all or none")
    run("yarnam", "submit", str(EXAMPLE / "spec.yaml"), "--watch", environ=environ)
    show_result(storage, time.monotonic() - started)
    show_next()


def down() -> None:
    run("yarnam", "cluster", "down", "--name", CLUSTER, environ=own_environ())


def main() -> None:
    parser = argparse.ArgumentParser(description="yarnam's demo")
    parser.add_argument("--down", action="store_true", help="take the demo's cluster down")
    try:
        down() if parser.parse_args().down else demo()
    except KeyboardInterrupt:
        sys.exit("\nstopped; the cluster may still be up: make demo-down")


if __name__ == "__main__":
    main()
