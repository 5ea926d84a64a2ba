"""Progress of transfers: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from yarnam._light_imports import on_first_use
from yarnam.cli.rendering.console import is_terminal

if TYPE_CHECKING:
    from hdfs_utils.transfer import Progress

with on_first_use():
    from hdfs_utils import transfer
    from hdfs_utils.transfer import progress_bar


@contextlib.contextmanager
def transfer_progress(label: str, *, is_silent: bool) -> Iterator[Progress]:
    """Show the progress of a transfer within this block; silent for programs."""
    progress: Progress
    if is_silent:
        progress = transfer.NoProgress()
    elif is_terminal(sys.stderr):
        progress = progress_bar.ProgressBar(label)
    else:
        progress = progress_bar.PlainProgress(label)
    try:
        yield progress
    finally:
        progress.end()
