"""``yarnam cp``: copy files to and from a task."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from yarnam._light_imports import on_first_use
from yarnam.cli.options import json_option, open_client
from yarnam.cli.rendering.console import print_json, print_note, print_progress
from yarnam.core.model.job_status import byte_words
from yarnam.core.model.session_parts import SessionKind
from yarnam.errors import UsageError

with on_first_use():
    from yarnam.client.monitor.sessions import file_copies, task_choice

_REMOTE = re.compile(r"([^/:]+):(.*)", re.DOTALL)


@click.command("cp")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--task", help="The task, such as worker-1. Default: that of rank 0.")
@click.option("-r", "--rank", type=click.IntRange(0), help="The task of this global rank.")
@click.option("-f", "--force", is_flag=True, help="Overwrite files.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    source: str,
    target: str,
    task: str | None,
    rank: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Copy a file or a directory to or from a task of a running job.

    One of SOURCE and TARGET is JOB:PATH, with PATH relative to the task's working directory; the
    other one is a path on this machine (./a:b for a name with a colon). Into a TARGET that is a
    directory; links that lead out of SOURCE are left out.
    """
    is_download = _REMOTE.fullmatch(source)
    is_upload = _REMOTE.fullmatch(target)
    if bool(is_download) is bool(is_upload):
        raise UsageError(
            "one of SOURCE and TARGET has to be JOB:PATH, and the other one a path here",
            hint="For example: yarnam cp last:model.pt .",
        )
    remote = is_download or is_upload
    assert remote is not None
    job, path = remote[1], os.fsencode(remote[2] or ".")
    progress = _Progress()
    with open_client(ctx) as client:
        handle = client.job(job)
        chosen = task_choice.choose_task(handle.status(), task, rank)
        kind = SessionKind.READ if is_download else SessionKind.WRITE
        session = handle.open_session(chosen, kind, path=path, overwrites=force)
        try:
            if is_download:
                copied = file_copies.download(
                    session, Path(target), print_note, progress.moved, overwrites=force
                )
            else:
                copied = file_copies.upload(session, Path(source), print_note, progress.moved)
        finally:
            print_progress("")
    if as_json:
        print_json({"files": copied.files, "bytes": copied.size})
    else:
        print_note(f"Copied {_words(copied.files, copied.size)}")


class _Progress:
    """Shows what has been copied so far, on a terminal."""

    def __init__(self) -> None:
        self._files = self._size = 0

    def moved(self, size: int) -> None:
        self._files, self._size = self._files + 1, self._size + size
        print_progress(_words(self._files, self._size))


def _words(files: int, size: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}, {byte_words(size)}"
