"""``yarnam tensorboard``: TensorBoard over a job's event files on HDFS."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from hdfs_utils.validation.check_in_subprocess import search_path
from yarnam.cli.options import job_argument, json_option, open_client
from yarnam.cli.rendering.console import print_json_line, print_line, print_note
from yarnam.cli.signals import INTERRUPTED, Terminated
from yarnam.client.monitor.event_directory import event_directory
from yarnam.client.monitor.sessions.port_forwarding import free_port
from yarnam.errors import BadConfig, Unavailable, YarnamError
from yarnam.web.http.tensorboard_server import SECRET_VARIABLE
from yarnam.web.http.url_token import UrlToken, new_secret

PORT = 6006
"""TensorBoard's own."""
HOST = "127.0.0.1"
START_LIMIT_S = 60.0
"""Until it listens: it imports numpy and more."""
POLL_S = 0.2
LOOK_S = 5.0
"""Between looks whether the files have moved: those of a job that succeeds become its outputs."""
END_LIMIT_S = 5.0
NEEDED = ("tensorboard", "fsspec")

# -I: neither the working directory nor variables say where the first imports come from.
_START = "from yarnam.web.http.tensorboard_server import main; main()"
_SPLIT = "cut = 2 + int(sys.argv[1]); sys.path[:] = sys.argv[2:cut]; sys.argv[1:cut] = []"


@click.command("tensorboard")
@job_argument
@click.option(
    "--logdir", default="", metavar="URI", help="Show this directory on HDFS instead of the job's."
)
@click.option(
    "-p", "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True,
    help="Listen on this port of 127.0.0.1; 0: any free one.",
)  # fmt: skip
@json_option
@click.pass_context
def command(ctx: click.Context, job: str, logdir: str, port: int, as_json: bool) -> int:
    """Run TensorBoard over a job's event files on HDFS until Ctrl-C.

    The directory is that of TENSORBOARD_LOGGING_DIR in the spec's `env`, else the job's outputs,
    also while it runs. TensorBoard runs on this machine, of `pip install 'yarnam[tensorboard]'`,
    and listens on 127.0.0.1 alone. Open the printed address: its token lets your browser in, and
    programs of other users are refused. From another machine, forward the port by SSH.
    """
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise BadConfig(
            "TensorBoard is not installed here", hint="pip install 'yarnam[tensorboard]'"
        )
    port = free_port(port)
    token = UrlToken(new_secret(), port)
    url = token.url(HOST)
    with open_client(ctx) as client:
        shown = client.job(job)
        spec = shown.record().job
        directory = event_directory(client.site, spec, shown.status, logdir)
        environ = {**os.environ, "HADOOP_CONF_DIR": str(client.site.conf_dir)}
        is_told = False
        try:
            while True:
                with _tensorboard(directory, token, environ) as process:
                    if not is_told and as_json:
                        print_json_line({"url": url, "logdir": directory})
                    elif not is_told:
                        print_line(url)
                    is_told = True
                    print_note(f"TensorBoard shows {directory} there until Ctrl-C.")
                    before = directory
                    while directory == before:
                        _await_look(process)
                        with suppress(YarnamError):
                            directory = event_directory(client.site, spec, shown.status, logdir)
        except Terminated:
            raise
        except KeyboardInterrupt:
            return INTERRUPTED


@contextmanager
def _tensorboard(
    directory: str, token: UrlToken, environ: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs while the block does, from when it listens. Raises Unavailable."""
    with tempfile.TemporaryDirectory(prefix="yarnam-tensorboard-") as scratch:
        log = Path(scratch) / "log"
        # Its quick loader, a program of its own, reads local files and Google's storage only.
        arguments = (
            "--logdir", directory, "--host", HOST, "--port", str(token.port), "--load_fast=false",
        )  # fmt: skip
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*_command(), *arguments],
                # In a variable: all users see the arguments of a process.
                env={**environ, SECRET_VARIABLE: token.secret},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        try:
            _await_listening(process, token.port, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _command() -> list[str]:
    """Runs TensorBoard with this process's modules, and none of the working directory's."""
    path = search_path()
    return [sys.executable, "-I", "-c", f"import sys; {_SPLIT}; {_START}", str(len(path)), *path]


def _await_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise Unavailable(
                f"TensorBoard has ended with code {process.returncode}: {''.join(said)}"
            )
        with suppress(OSError), socket.create_connection((HOST, port), 1.0):
            if process.poll() is None:
                return
        time.sleep(POLL_S)
    raise Unavailable(f"TensorBoard does not listen after {START_LIMIT_S:g} s")


def _await_look(process: subprocess.Popen[bytes]) -> None:
    """Raises Unavailable when it has ended on its own."""
    deadline = time.monotonic() + LOOK_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(f"TensorBoard has ended with code {process.returncode}")
        time.sleep(POLL_S)
