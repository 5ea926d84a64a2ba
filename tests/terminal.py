"""A program on a terminal of its own.

Not ``pexpect.spawn``: it forks in Python, and in a process that has threads of gRPC or of HDFS's
client the child may hang before it executes anything.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

from pexpect import fdpexpect

_LEAD = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execvp(sys.argv[1], sys.argv[1:])\n"
)
END_LIMIT_S = 20.0


class Terminal(fdpexpect.fdspawn):  # type: ignore[misc]
    """With the calls of ``pexpect.spawn`` that tests use."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        rows: int,
        columns: int,
        timeout_s: float,
        folder: Path | None = None,
    ) -> None:
        ours, theirs = pty.openpty()
        _resize(theirs, rows, columns)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LEAD, *command], env=dict(env), cwd=folder, stdin=theirs,
            stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        super().__init__(ours, timeout=timeout_s, encoding="utf-8")

    @property
    def exit_code(self) -> int:
        return self.process.wait(END_LIMIT_S)

    def setwinsize(self, rows: int, columns: int) -> None:
        _resize(self.child_fd, rows, columns)

    def sendcontrol(self, letter: str) -> None:
        self.send(chr(ord(letter.upper()) - 64))

    def end(self) -> None:
        """Idempotent. Its program is killed if it still runs."""
        self.process.kill()
        self.process.wait(END_LIMIT_S)
        if not self.closed:
            self.close()


def _resize(terminal: int, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
