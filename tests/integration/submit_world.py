"""Runs ``yarnam`` as a user does, against the shared cluster, and looks at what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from hdfs_utils import FileSystem, connect
from yarnam.client.site import open_site, user_name

BIN = Path(sys.executable).parent
MARK = "YARNAM_TEST_MARK"
LIMIT_S = 180.0


@dataclass
class Done:
    """One command that has ended."""

    code: int
    out: str
    err: str
    took_s: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class SubmitWorld:
    """Commands carry a mark in their environment, by which their processes are found."""

    folder: Path
    environ: dict[str, str]
    conf_dir: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    queue: str = "root.dl"

    def __post_init__(self) -> None:
        self.environ = {
            **self.environ,
            MARK: self.mark,
            "PATH": f"{BIN}:{self.environ['PATH']}",
            "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        }
        self.user = user_name(self.environ)
        self.rm = open_site(self.conf_dir, environ=self.environ).rm
        self.files: FileSystem = connect(conf_dir=str(self.conf_dir))
        self.home = f"/user/{self.user}"

    def spec(self, name: str, command: str | list[str], *, gpus: int = 1, **more: Any) -> str:
        """Writes a spec (JSON is YAML) and returns its path."""
        document = {
            "version": 1,
            "name": name,
            "queue": self.queue,
            "command": command,
            "gpus": gpus,
            "memory_per_gpu": "512 MiB",
            "vcores_per_gpu": 1,
            **more,
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))
        return str(path)

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(BIN / "yarnam"), *arguments],
            env={**self.environ, **environ},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def run(self, *arguments: str, **environ: str) -> Done:
        began = time.monotonic()
        with self.start(*arguments, **environ) as process:
            return finish(process, began)

    def submit(self, spec: str, *options: str) -> str:
        """Detached; returns the application's id."""
        done = self.run("submit", spec, "--detach", *options)
        assert done.code == 0, done.err
        return done.out.strip()

    @property
    def has_logs(self) -> bool:
        """Of jobs that have ended. The embedded cluster with Kerberos has none: its NodeManagers
        would need Hadoop's native library to hand them in, or to show them."""
        return "KRB5_CONFIG" not in self.environ

    def output(self, application: str) -> str:
        """Of the processes of a job that has ended."""
        if self.has_logs:
            return self.run("logs", application).out
        logs = (self.conf_dir.parent / "data").glob(f"*/container-logs/{application}/*/*-*.*.log")
        return "".join(path.read_text() for path in logs)

    def await_state(self, application: str, *states: str, limit_s: float = 180.0) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        while True:
            status = self.run("status", application, "--json").json
            if status["state"] in states:
                return dict(status)
            assert time.monotonic() < deadline, f"still {status['state']}: {status['reason']}"
            time.sleep(0.2)

    # ---- what is left ------------------------------------------------------------------------

    def traces(self) -> set[str]:
        """Everything of jobs on HDFS (the runtime archives are meant to stay) and the user's
        applications."""
        found = {app.application for app in self.rm.applications(user=self.user)}
        for folder in (".yarnam/jobs", ".yarnam/applications", ".skein"):
            path = f"{self.home}/{folder}"
            if self.files.exists(path):
                found |= {entry.path for entry in self.files.list(path)}
        return found

    def processes(self) -> list[psutil.Process]:
        """Those that our commands started and that still live."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and process.environ().get(MARK) == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def no_process_left(self, limit_s: float = 5.0) -> bool:
        deadline = time.monotonic() + limit_s
        while self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True


def finish(process: subprocess.Popen[str], began: float) -> Done:
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"no end after {LIMIT_S} s:\n{out}\n{err}") from None
    return Done(process.returncode, out, err, time.monotonic() - began)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C."""
    process.send_signal(signal.SIGINT)


def until(lines: Iterator[str], text: str) -> str:
    """Read lines until one has the text."""
    for line in lines:
        if text in line:
            return line
    raise AssertionError(f"ended without {text!r}")
