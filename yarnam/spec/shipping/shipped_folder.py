"""Decide which files of a local directory a job ships."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pathspec import GitIgnoreSpec

from yarnam.core.model.printable import size_text
from yarnam.errors import BadSpec

EXCLUDED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
"""Directories that no container needs; documented in docs/reference/spec.md with ``code``."""

IGNORE_FILE = ".yarnamignore"
GIT_IGNORE_FILE = ".gitignore"

SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.jks", "*.keytab", "id_rsa", "id_dsa",
    "id_ecdsa", "id_ed25519", ".netrc", ".pgpass", ".htpasswd", ".npmrc", ".pypirc",
    "credentials.json", "kaggle.json", "*service-account*.json",
)  # fmt: skip
"""Names of files that usually hold a secret: those that ssh, cloud tools and package tools use."""

MAX_RULES_BYTES = 1 << 20
SHOWN = 3
"""The most files that a notice names."""

LARGE_BYTES = 256 << 20
"""A folder of this size is worth a warning. It is packed and uploaded at each submit."""


@dataclass(frozen=True, slots=True)
class ShippedFolder:
    """The content of a folder that is shipped. Paths are relative; sizes in bytes, unpacked."""

    folder: Path
    folders: tuple[str, ...]
    files: tuple[tuple[str, int], ...]
    """Each file with its size."""
    ignored_files: int
    """The files that ignore files name."""

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)

    @property
    def largest(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.files, key=lambda one: one[1], reverse=True)[:SHOWN])

    @property
    def secrets(self) -> tuple[str, ...]:
        """Files whose names say that they hold a secret."""
        return tuple(
            path
            for path, _ in self.files
            if any(fnmatchcase(path.rpartition("/")[2].lower(), name) for name in SECRET_NAMES)
        )

    def notices(self, name: str) -> tuple[str, ...]:
        """The notices for whoever submits this folder as ``name``."""
        found = []
        if self.size >= LARGE_BYTES:
            largest = ", ".join(f"{path} ({size_text(size)})" for path, size in self.largest)
            found.append(
                f"'{name}' has {size_text(self.size)} in {len(self.files)} files; the largest: "
                f"{largest}. Files that the job does not need can be named in "
                f"{self.folder / IGNORE_FILE}; data belongs on HDFS"
            )
        if secrets := self.secrets:
            more = f" and {len(secrets) - SHOWN} more" if len(secrets) > SHOWN else ""
            found.append(
                f"'{name}' ships what looks like a secret: {', '.join(secrets[:SHOWN])}{more}."
                f" Name it in {self.folder / IGNORE_FILE}, and give secrets by secret_env"
            )
        return tuple(found)

    def summary(self, name: str) -> str:
        """One line on what is shipped."""
        ignored_files = f", {self.ignored_files} left out" if self.ignored_files else ""
        return f"'{name}': {len(self.files)} files, {size_text(self.size)}{ignored_files}"


class LocalFolder:
    """A directory that a job is to ship, looked into as far as it is asked."""

    def __init__(self, folder: Path, *, uses_git: bool = False) -> None:
        self.folder = folder
        self._uses_git = uses_git

    def ships(self, path: str) -> bool:
        """Whether a file or folder in it exists and is shipped. Raises BadSpec, OSError."""
        target = Path(path)
        if not (self.folder / target).exists() or not EXCLUDED_FOLDERS.isdisjoint(target.parts):
            return False
        rules = _Rules(self.folder, uses_git=self._uses_git)
        below = [*reversed(target.parents)][1:]
        for above in (Path(), *below):
            rules.enter(above)
        if any(rules.names(above, is_folder=True) for above in below):
            return False
        return not rules.names(target, is_folder=(self.folder / target).is_dir())

    def content(self) -> ShippedFolder:
        """All of it. Raises BadSpec, OSError."""
        return shipped_folder(self.folder, uses_git=self._uses_git)


def shipped_folder(folder: Path, *, uses_git: bool = False) -> ShippedFolder:
    """Walk a folder. ``uses_git``: what ``.gitignore`` files name is left out too. Links to folders
    are not entered. Raises BadSpec for an ignore file that cannot be read, OSError."""
    rules = _Rules(folder, uses_git=uses_git)
    folders: list[str] = []
    files: list[tuple[str, int]] = []
    ignored_files = 0
    for where, below, names in os.walk(folder, onerror=_raise):
        here = Path(where).relative_to(folder)
        rules.enter(here)
        below[:] = sorted(
            name
            for name in below
            if name not in EXCLUDED_FOLDERS and not rules.names(here / name, is_folder=True)
        )
        folders += ((here / name).as_posix() for name in below)
        for name in sorted(names):
            if name.endswith(".pyc") or name == IGNORE_FILE:
                continue
            if rules.names(here / name):
                ignored_files += 1
            else:
                size = 0
                with suppress(FileNotFoundError):  # A broken link is refused where it is packed.
                    size = (Path(where) / name).stat().st_size
                files.append(((here / name).as_posix(), size))
    return ShippedFolder(folder, tuple(folders), tuple(files), ignored_files)


class _Rules:
    """Ignore files of a folder, in git's syntax. A file nearer to a path counts before one above
    it, and ``.yarnamignore`` before both."""

    def __init__(self, folder: Path, *, uses_git: bool) -> None:
        self._folder = folder
        self._uses_git = uses_git
        self._own = _read(folder / IGNORE_FILE)
        self._git: dict[Path, GitIgnoreSpec] = {}

    def enter(self, here: Path) -> None:
        if self._uses_git and (found := _read(self._folder / here / GIT_IGNORE_FILE)):
            self._git[here] = found

    def names(self, path: Path, *, is_folder: bool = False) -> bool:
        """Whether they name this path."""
        end = "/" if is_folder else ""
        if self._own is not None:
            decided = self._own.check_file(f"{path.as_posix()}{end}").include
            if decided is not None:
                return decided
        for above in path.parents:
            if (rules := self._git.get(above)) is not None:
                decided = rules.check_file(f"{path.relative_to(above).as_posix()}{end}").include
                if decided is not None:
                    return decided
        return False


def _read(path: Path) -> GitIgnoreSpec | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_RULES_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > MAX_RULES_BYTES:
        raise BadSpec(f"{path} is larger than 1 MiB")
    try:
        return GitIgnoreSpec.from_lines(data.decode("utf-8").splitlines())
    except ValueError as error:
        raise BadSpec(f"{path}: {error}", hint="It has git's syntax: a pattern a line.") from error


def _raise(error: OSError) -> None:
    raise error


def entries(shipped: ShippedFolder) -> Iterator[Path]:
    """All folders and files, parents first."""
    names = sorted((*shipped.folders, *(path for path, _ in shipped.files)))
    return (shipped.folder / name for name in names)
