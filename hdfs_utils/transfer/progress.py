"""The progress of long operations, as those report it and others show it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the progress of an operation, from several threads."""

    def begin(self, files: int, size: int) -> None:
        """Set the totals: files and bytes."""

    def add(self, size: int) -> None:
        """Count bytes; negative if they must be sent again."""

    def file_done(self) -> None:
        """Count a complete file."""

    def phase(self, name: str) -> None:
        """Name what is being done now, as in ``verifying``."""

    def end(self) -> None:
        """The operation is over."""


class NoProgress:
    """Ignores all progress; a base class for those that need only some of it."""

    def begin(self, files: int, size: int) -> None: ...

    def add(self, size: int) -> None: ...

    def file_done(self) -> None: ...

    def phase(self, name: str) -> None: ...

    def end(self) -> None: ...
