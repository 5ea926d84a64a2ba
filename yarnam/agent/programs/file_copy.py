"""Files of a task as a stream of tar, and back: `yarnam cp`. The agent starts it in the task; the
client uses its functions for its own end.

No name climbs out of the target, no link is followed while writing, and nothing is overwritten that
was not meant. What is neither a file nor a directory is left out, and named.

It imports nothing of yarnam: it runs with -I -S.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

BLOCK_BYTES = 256 * 1024
MAX_LINK = 4096
"""PATH_MAX."""
REFUSED, TAKEN, BROKEN = 64, 73, 74
"""Exit codes: bad input, a path that exists, a stream that ended too early."""
PART = ".yarnam-part"
"""Ends the name of a file that is not complete."""


class CopyRefused(Exception):
    """``code`` is an exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Copied(NamedTuple):
    files: int
    size: int


Note = Callable[[str], None]


# ---- from files ----------------------------------------------------------------------------------


def send_files(source: Path, stream: IO[bytes], note: Note, moved: Callable[[int], None]) -> Copied:
    """Write ``source``, a file or a directory with all in it, to ``stream``. ``moved`` is called
    with the size of each file. Raises CopyRefused and OSError."""
    try:
        root = source.resolve(strict=True)
    except FileNotFoundError:
        raise CopyRefused(REFUSED, f"{source} does not exist") from None
    if not (root.is_file() or root.is_dir()):
        raise CopyRefused(REFUSED, f"{source} is neither a file nor a directory")
    files = size = 0
    with tarfile.open(
        fileobj=stream, mode="w|", bufsize=BLOCK_BYTES, format=tarfile.PAX_FORMAT
    ) as tar:
        for path in _walk(root):
            member = _member(path, root, note)
            if member is None:
                continue
            if not member.isreg():
                tar.addfile(member)
                continue
            # Its size is that of the descriptor which is read: the path may be changed meanwhile.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, "rb") as file:
                facts = os.fstat(fd)
                if not stat.S_ISREG(facts.st_mode):
                    note(f"left out {path}: it is not a regular file any more")
                    continue
                member.size = facts.st_size
                tar.addfile(member, file)
            files, size = files + 1, size + member.size
            moved(member.size)
    return Copied(files, size)


def _walk(root: Path) -> Iterator[Path]:
    """Directories before what is in them; links are not followed."""
    yield root
    if root.is_symlink() or not root.is_dir():
        return
    for entry in sorted(root.iterdir()):
        yield from _walk(entry)


def _member(path: Path, root: Path, note: Note) -> tarfile.TarInfo | None:
    facts = path.lstat()
    member = tarfile.TarInfo(str(PurePosixPath(root.name or "root", *path.relative_to(root).parts)))
    member.mode, member.mtime = stat.S_IMODE(facts.st_mode) & 0o777, int(facts.st_mtime)
    if stat.S_ISREG(facts.st_mode):
        member.size = facts.st_size
    elif stat.S_ISDIR(facts.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(facts.st_mode):
        target = str(path.readlink())
        if not stays_inside(path.relative_to(root), target):
            note(f"left out {path}: a link that leads out of {root}, to {target}")
            return None
        member.type, member.linkname = tarfile.SYMTYPE, target
    else:
        note(f"left out {path}: it is neither a file nor a directory")
        return None
    return member


def stays_inside(link: Path | PurePosixPath, target: str) -> bool:
    """Whether a link at this relative path leads to something within the directory that is
    copied."""
    if target.startswith("/") or not target or len(target) > MAX_LINK:
        return False
    depth = len(link.parts) - 1
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return False
    return True


# ---- to files ------------------------------------------------------------------------------------


def receive_files(
    stream: IO[bytes], target: Path, note: Note, moved: Callable[[int], None], *, overwrites: bool
) -> Copied:
    """Write what comes to ``target``; into it, if it is a directory that exists. Raises CopyRefused
    and OSError; files that were complete by then stay."""
    files = size = 0
    top = ""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK_BYTES) as tar:
            for member in tar:
                parts = _checked_parts(member.name)
                if not top:
                    top = parts[0]
                    target = target / top if target.is_dir() else target
                    _check_parent(target)
                if parts[0] != top:
                    raise CopyRefused(REFUSED, f"a name that does not belong here: {member.name!r}")
                path = target.joinpath(*parts[1:])
                _check_way(target, path)
                if member.isdir():
                    _make_directory(path)
                elif member.isreg():
                    _write_file(tar.extractfile(member), member, path, overwrites=overwrites)
                    files, size = files + 1, size + member.size
                    moved(member.size)
                elif member.issym() and stays_inside(PurePosixPath(*parts[1:]), member.linkname):
                    _make_link(member.linkname, path, overwrites=overwrites)
                else:
                    note(f"left out {member.name}: it is neither a file nor a directory")
    except tarfile.TarError as error:
        raise CopyRefused(BROKEN, f"the stream of files broke off: {error}") from error
    if not top:
        raise CopyRefused(BROKEN, "no file came")
    return Copied(files, size)


def _checked_parts(name: str) -> tuple[str, ...]:
    parts = tuple(name.rstrip("/").split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise CopyRefused(REFUSED, f"a name that climbs, or is not one: {name!r}")
    return parts


def _check_parent(target: Path) -> None:
    if not target.parent.is_dir():
        raise CopyRefused(REFUSED, f"{target.parent} is not a directory")


def _check_way(target: Path, path: Path) -> None:
    """Nothing between the target and the path is a link that leads elsewhere."""
    if path == target:
        return
    for parent in (target, *reversed([one for one in path.parents if target in one.parents])):
        if parent.is_symlink() or not parent.is_dir():
            raise CopyRefused(TAKEN, f"{parent} exists and is not a directory")


def _make_directory(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        try:
            path.mkdir()
        except FileExistsError:
            raise CopyRefused(TAKEN, f"{path} exists and is not a directory") from None


def _check_free(path: Path, *, overwrites: bool) -> None:
    if not os.path.lexists(path):
        return
    if path.is_dir() and not path.is_symlink():
        raise CopyRefused(TAKEN, f"{path} is a directory")
    if not overwrites:
        raise CopyRefused(TAKEN, f"{path} exists; --force overwrites it")


def _write_file(
    content: IO[bytes] | None, member: tarfile.TarInfo, path: Path, *, overwrites: bool
) -> None:
    _check_free(path, overwrites=overwrites)
    part = path.with_name(f".{path.name[:200]}.{os.getpid()}{PART}")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            left = member.size
            while left and content is not None:
                data = content.read(min(left, BLOCK_BYTES))
                if not data:
                    raise CopyRefused(BROKEN, f"the stream of files broke off in {member.name}")
                file.write(data)
                left -= len(data)
            os.fchmod(fd, member.mode & 0o777)
        os.utime(part, (member.mtime, member.mtime))
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _make_link(target: str, path: Path, *, overwrites: bool) -> None:
    _check_free(path, overwrites=overwrites)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


# ---- as a program --------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("direction", choices=("read", "write"))
    parser.add_argument("path")
    parser.add_argument("--overwrite", action="store_true")
    given: Any = parser.parse_args(arguments)

    def note(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def moved(_: int) -> None:
        """The other end counts."""

    path = Path(given.path)
    try:
        if given.direction == "read":
            copied = send_files(path, sys.stdout.buffer, note, moved)
            sys.stdout.buffer.flush()
        else:
            copied = receive_files(sys.stdin.buffer, path, note, moved, overwrites=given.overwrite)
            sys.stdout.write(json.dumps(copied._asdict()))
    except CopyRefused as error:
        note(str(error))
        return error.code
    except OSError as error:
        note(f"{error.filename or path}: {error.strerror or error}")
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
