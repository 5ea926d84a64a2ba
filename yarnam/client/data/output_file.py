"""Files that a user has named for the output of a command."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from yarnam.errors import UsageError
from yarnam.errors.full_disks import disk_full


def write_output(path: str | Path, text: str, *, is_new: bool = False) -> None:
    """Raises as ``output_file``."""
    with output_file(path, is_new=is_new) as draft:
        draft.write_text(text, encoding="utf-8")


@contextmanager
def output_file(path: str | Path, *, is_new: bool = False) -> Iterator[Path]:
    """A draft to write, which becomes ``path`` at the end: all of it, or the file stays as it was.
    ``is_new``: no file may be there yet. Raises UsageError, DiskFull."""
    if is_new and Path(path).exists():
        raise UsageError(f"{path} already exists", hint="Choose another name.")
    target = Path(path).resolve()
    is_file = target.is_file()
    if target.exists() and not is_file:
        draft = target  # a device or a pipe
    else:
        draft = target.with_name(f".yarnam-{secrets.token_hex(6)}.new")
    try:
        yield draft
        if draft != target:
            if is_file:
                shutil.copymode(target, draft)
            draft.replace(target)
    except OSError as error:
        if full := disk_full(error, target):
            raise full from error
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if draft != target:
            with suppress(OSError):
                draft.unlink()
