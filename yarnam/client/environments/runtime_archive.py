"""The runtime archive: what the AM and the agents need of the submitting environment.

``lib/`` holds yarnam, hdfs_utils, skein_specs and the few distributions they import in a
container; ``sdk/`` holds ``yarnam.train`` alone, for the user's own Python. The archive is named by
the content it is made of, so it is built once per environment and uploaded once per cluster.
Compiled parts make it good for one Python version and one platform.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import platform
import py_compile
import shutil
import sys
import sysconfig
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from yarnam.client.environments.local_cache import BUILDING_PREFIX, is_cached
from yarnam.errors import BadConfig

FORMAT = 1
"""Goes into the name: raise it when the layout or the choice of files changes."""

OWN_PACKAGES = ("yarnam", "hdfs_utils", "skein_specs")
"""Taken from where they are imported from, so an editable install works."""

EXCLUDED_PACKAGES = ("airflow", "cluster", "client", "spec", "sim")
"""Packages of yarnam that no container imports."""

SDK_FILES = ("__init__.py", "_version.py", "train")

DISTRIBUTIONS = (
    "attrs",
    "cattrs",
    # Checks of suspected TFRecords.
    "google-crc32c",
    "grpcio",
    "hdfs-native",
    # The job page.
    "Jinja2",
    "kazoo",
    "MarkupSafe",
    "protobuf",
    "PyYAML",
    "skein",
    "typing_extensions",
)
OPTIONAL_DISTRIBUTIONS = ("nvidia-ml-py",)
"""Taken along where they are installed: the agents measure GPUs by it."""
EXTRA_BELOW_3_11 = ("exceptiongroup",)  # cattrs needs it there
EXTRA_FROM_3_12 = ("setuptools",)  # Skein imports distutils, gone from the standard library

_SKIPPED_SUFFIXES = (".pyc", ".pyi", ".c", ".h", ".pyx", ".pxd", ".jar", ".proto", ".exe")
_SKIPPED_FOLDERS = frozenset({"__pycache__", "tests", "test", "include"})
_GZIP_LEVEL = 1
"""Shared libraries are most of it: level 6 takes five times as long for a tenth less."""


@dataclass(frozen=True, slots=True)
class RuntimeSource:
    """The content of the archive, and the name that follows from it."""

    key: str
    packages: tuple[tuple[str, Path], ...]
    distributions: tuple[importlib.metadata.Distribution, ...]

    @property
    def file_name(self) -> str:
        return f"yarnam-runtime-{self.key}.tar.gz"


def python_version() -> str:
    """The version that the nodes must have, as in ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


_MEMBER_BYTES = 4 << 20
"""As large as a member has to be for its head and the lost context to cost nothing."""


def runtime_source(own_packages: Sequence[str] = OWN_PACKAGES) -> RuntimeSource:
    """Read the installed packages: hashes the sources of ``own_packages`` and the RECORD of each
    distribution that they need."""
    packages = tuple((name, _package_dir(name)) for name in own_packages)
    distributions = tuple(_distribution(name) for name in _distribution_names())
    digest = hashlib.sha256(
        f"{FORMAT} {python_version()} {sysconfig.get_platform()} {platform.libc_ver()[0]}".encode()
    )
    for name, folder in packages:
        for path in _own_files(folder):
            digest.update(f"\n{name}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    for distribution in distributions:
        record = distribution.read_text("RECORD") or distribution.read_text("METADATA") or ""
        digest.update(f"\n{distribution.name} {distribution.version}\0{record}".encode())
    return RuntimeSource(digest.hexdigest()[:20], packages, distributions)


def build_runtime(source: RuntimeSource, cache: Path) -> Path:
    """The archive in the local cache, built there if it is not. Safe under concurrent builders:
    each works in a folder of its own and renames at the end."""
    target = cache / "runtime" / source.file_name
    if is_cached(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=BUILDING_PREFIX) as scratch:
        tree = Path(scratch) / "tree"
        _fill_lib(source, tree / "lib")
        _fill_sdk(source, tree / "sdk")
        archive = Path(scratch) / source.file_name
        with reproducible_tar(archive, _GZIP_LEVEL) as tar:
            for path in sorted(tree.rglob("*")):
                name = path.relative_to(tree).as_posix()
                tar.add(path, arcname=name, recursive=False, filter=anonymous_entry)
        archive.replace(target)
    return target


@contextmanager
def reproducible_tar(archive: Path, gzip_level: int) -> Iterator[tarfile.TarFile]:
    """A new tar.gz whose bytes depend only on the entries that are added. All cores compress."""
    with (
        archive.open("wb") as raw,
        _GzipMembers(raw, gzip_level) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        yield tar


class _GzipMembers(io.RawIOBase):
    """Compresses pieces of a stream in parallel, each to a gzip file of its own: RFC 1952 lets
    readers take several in a row as one, and gzip and Java do."""

    def __init__(self, raw: IO[bytes], level: int) -> None:
        self._raw = raw
        self._level = level
        self._pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="gzip")
        self._written = 0
        self._piece = bytearray()
        self._compressed: deque[Future[bytes]] = deque()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        view = memoryview(data)
        for start in range(0, len(view), _MEMBER_BYTES):
            self._piece += view[start : start + _MEMBER_BYTES]
            if len(self._piece) >= _MEMBER_BYTES:
                self._send()
        self._written += len(view)
        return len(view)

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._piece or not self._compressed:
                self._send()
            self._drain(0)
        finally:
            self._pool.shutdown(cancel_futures=True)
            super().close()

    def _send(self) -> None:
        piece, self._piece = bytes(self._piece), bytearray()
        self._compressed.append(self._pool.submit(gzip.compress, piece, self._level, mtime=0))
        self._drain(2 * (os.cpu_count() or 1))

    def _drain(self, most: int) -> None:
        while len(self._compressed) > most:
            self._raw.write(self._compressed.popleft().result())


def anonymous_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out owner and time: the same content gives the same archive for every user."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def _distribution_names() -> tuple[str, ...]:
    names: tuple[str, ...] = DISTRIBUTIONS
    if sys.version_info < (3, 11):
        names += EXTRA_BELOW_3_11
    if sys.version_info >= (3, 12):
        names += EXTRA_FROM_3_12
    return names + tuple(name for name in OPTIONAL_DISTRIBUTIONS if _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise BadConfig(
            f"package {name} is not installed",
            hint="Reinstall yarnam with pip, which installs its dependencies.",
        ) from error
    if not found.files:
        raise BadConfig(
            f"package {name} was installed without a list of its files",
            hint=f"Reinstall it with pip: pip install --force-reinstall {name}=={found.version}",
        )
    return found


def _package_dir(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise BadConfig(f"package {name} cannot be found", hint="Reinstall yarnam.")
    return Path(spec.origin).parent


def _own_files(folder: Path) -> Iterator[Path]:
    excluded = {folder / name for name in EXCLUDED_PACKAGES} if folder.name == "yarnam" else set()
    for where, folders, files in os.walk(folder):
        here = Path(where)
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED_FOLDERS and here / name not in excluded
        )
        yield from (here / name for name in sorted(files) if not name.endswith(_SKIPPED_SUFFIXES))


def _fill_lib(source: RuntimeSource, lib: Path) -> None:
    for name, folder in source.packages:
        for path in _own_files(folder):
            _copy(path, lib / name / path.relative_to(folder))
    for distribution in source.distributions:
        for file in distribution.files or ():
            relative = PurePosixPath(file)
            if _belongs_in_lib(relative):
                _copy(Path(str(distribution.locate_file(file))), lib / relative)
    if sys.version_info >= (3, 12):
        # setuptools offers distutils through a .pth hook, which a plain folder does not run.
        shutil.copytree(lib / "setuptools" / "_distutils", lib / "distutils")
    # The bytecode is unchecked: YARN's copies get new times, and the files are never edited.
    # Not compileall: it takes a full disk for a file that cannot be compiled.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for path in sorted(lib.rglob("*.py")):
        name = path.relative_to(lib).as_posix()
        with suppress(py_compile.PyCompileError):
            py_compile.compile(str(path), dfile=name, doraise=True, quiet=1, invalidation_mode=mode)


def _fill_sdk(source: RuntimeSource, sdk: Path) -> None:
    folder = dict(source.packages)["yarnam"]
    for name in SDK_FILES:
        root = folder / name
        for path in _own_files(root) if root.is_dir() else (root,):
            _copy(path, sdk / "yarnam" / path.relative_to(folder))


def _belongs_in_lib(path: PurePosixPath) -> bool:
    if path.is_absolute() or ".." in path.parts:
        return False  # console scripts and the like, outside site-packages
    if path.parts[0].endswith((".dist-info", ".egg-info")):
        return path.name == "METADATA"  # some packages look up their own version
    return not (path.name.endswith(_SKIPPED_SUFFIXES) or _SKIPPED_FOLDERS & set(path.parts[:-1]))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
