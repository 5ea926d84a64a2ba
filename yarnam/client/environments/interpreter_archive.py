"""An interpreter that runs from any directory of a node, as a tree of files and as an archive.

The AM and the agents run on it, so that nodes need no Python, and so does user code that asks for
``python: bundled``. It is a copy of the submitting Python: no registry that yarnam uses has a plain
CPython for Linux. Layout, as CPython expects it: ``bin/python3.X``, ``lib/python3.X``, and in
``lib`` the libraries that are not the C library's. ``platform`` says in one line for which machines
it is good.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hdfs_utils.transfer import NoProgress, Progress
from yarnam.client.environments.local_cache import BUILDING_PREFIX, is_cached
from yarnam.client.environments.programs.interpreter_facts import interpreter_facts
from yarnam.client.environments.runtime_archive import anonymous_entry, reproducible_tar
from yarnam.client.environments.shared_libraries import (
    least_glibc,
    needed_libraries,
    set_run_path,
    strip_symbols,
)
from yarnam.errors import BadConfig
from yarnam.errors.full_disks import disk_full, full_disk_in

FORMAT = 2
"""Goes into the name: raise it when the layout or the choice of files changes."""

PLATFORM_FILE = "platform"
"""``x86_64 35``: the machine, and the N of the GLIBC_2.N that it needs at least."""

DEBIAN_SCHEME = "posix_local"
"""The name of the layout in ``sysconfig``, by Debian's patch of Python 3.10 and later."""

COMPILE_LIMIT_S = 300.0
"""The time to compile the standard library: some seconds on a quiet machine."""

_NOT_COPIED = shutil.ignore_patterns(
    # Tests, windows (Tk) and what makes environments: no job runs them.
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "turtle.py", "lib2to3",
    "ensurepip", "pydoc_data", "site-packages", "dist-packages", "config-*", "_tkinter*", "_test*",
    "_ctypes_test*", "xxlimited*", "*.a", "EXTERNALLY-MANAGED", "sitecustomize.py",
)  # fmt: skip
_GZIP_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python of this machine, as ``interpreter_facts`` describes it."""

    executable: Path
    version: str
    build: str
    machine: str
    stdlib: Path
    dynload: Path

    @property
    def name(self) -> str:
        return f"python{self.version}"

    @property
    def key(self) -> str:
        """The same for the same build of Python, wherever it is installed."""
        parts = sorted(f"{path.name} {path.stat().st_size}" for path in self.dynload.glob("*.so"))
        parts += [DEBIAN_SCHEME] if has_debian_layout(self.stdlib) else []
        text = "\n".join([f"{FORMAT} {self.machine} {self.build}", *parts])
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def file_name(self) -> str:
        return f"yarnam-python-{self.version}-{self.key}.tar.gz"


def interpreter_from(facts: Mapping[str, str]) -> Interpreter:
    return Interpreter(
        Path(facts["executable"]),
        facts["version"],
        facts["build"],
        facts["machine"],
        Path(facts["stdlib"]),
        Path(facts["dynload"]),
    )


def own_interpreter() -> Interpreter:
    """The Python that submits."""
    return interpreter_from(interpreter_facts())


def build_interpreter(interpreter: Interpreter, cache: Path) -> Path:
    """The archive in the local cache, built there if it is not. Safe under concurrent builders.
    Raises BadConfig: this Python cannot be copied."""
    target = cache / "interpreters" / interpreter.file_name
    if is_cached(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=BUILDING_PREFIX) as scratch:
        tree = Path(scratch) / "tree"
        copy_interpreter(interpreter, tree)
        archive = Path(scratch) / interpreter.file_name
        pack_tree(tree, archive, _GZIP_LEVEL, NoProgress())
        archive.replace(target)
    return target


def copy_interpreter(interpreter: Interpreter, tree: Path) -> None:
    """The files of the archive, in the new directory ``tree``. Raises BadConfig."""
    lib = tree / "lib"
    stdlib = lib / interpreter.name
    program = tree / "bin" / interpreter.name
    program.parent.mkdir(parents=True)
    try:
        shutil.copy(interpreter.executable, program)
        shutil.copytree(interpreter.stdlib, stdlib, ignore=_NOT_COPIED)
        dynload = stdlib / "lib-dynload"
        if not dynload.exists():
            shutil.copytree(interpreter.dynload, dynload, ignore=_NOT_COPIED)
        modules = sorted(dynload.glob("*.so"))
        libraries = needed_libraries([interpreter.executable, *modules])
        for name, path in libraries.items():
            shutil.copy(path, lib / name)
    except OSError as error:
        if full := disk_full(error, tree):
            raise full from error
        raise BadConfig(f"cannot copy the Python {interpreter.executable}: {error}") from error
    copied = [lib / name for name in libraries]
    strip_symbols([program, *modules, *copied])
    set_run_path([program], "$ORIGIN/../lib")
    set_run_path(modules, "$ORIGIN/../..")
    set_run_path(copied, "$ORIGIN")
    for alias in ("python", "python3"):
        (program.parent / alias).symlink_to(program.name)
    if has_debian_layout(stdlib):
        _link_debian_layout(tree, interpreter.name)
    glibc = least_glibc([program, *modules, *copied])
    (tree / PLATFORM_FILE).write_text(f"{interpreter.machine} {glibc}\n")
    compile_tree(program, stdlib)


def has_debian_layout(stdlib: Path) -> bool:
    """Whether this Python installs packages to ``local/lib/python3.X/dist-packages`` and looks for
    them there: that of Debian and Ubuntu, outside of virtual environments."""
    try:
        return DEBIAN_SCHEME in (stdlib / "sysconfig.py").read_text(errors="replace")
    except OSError:  # a package since Python 3.14
        return any(DEBIAN_SCHEME in path.read_text() for path in stdlib.glob("sysconfig/*.py"))


def _link_debian_layout(tree: Path, name: str) -> None:
    """Let installers and the interpreter find the usual places under Debian's names."""
    packages = tree / "local" / "lib" / name / "dist-packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(f"../../../lib/{name}/site-packages")
    (tree / "local" / "bin").symlink_to("../bin")


def compile_tree(program: Path, folder: Path) -> None:
    """Bytecode beside all modules in ``folder``, by the copied interpreter itself, which is thereby
    tried. Raises BadConfig."""
    # The bytecode is unchecked: YARN's copies get new times, and the files are never edited.
    command = [
        str(program), "-I", "-S", "-B", "-m", "compileall", "-f", "-q", "-j", "0",
        "-s", str(folder), "--invalidation-mode", "unchecked-hash", str(folder),
    ]  # fmt: skip
    env = {"PATH": os.defpath}
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, errors="replace",
            timeout=COMPILE_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadConfig(f"the copied Python does not run: {error}") from error
    if full := full_disk_in(f"{done.stderr}\n{done.stdout}" if done.returncode else "", folder):
        raise full
    # Packages hold files of other versions and broken ones, which nobody imports: 1 is for those.
    if done.returncode not in (0, 1):
        raise BadConfig(f"the copied Python does not run: {done.stderr.strip()[-500:]}")


def pack_tree(tree: Path, archive: Path, gzip_level: int, progress: Progress) -> None:
    """The directory's content as tar.gz; symbolic links stay links."""
    found = [(path, path.lstat()) for path in sorted(tree.rglob("*"))]
    progress.begin(len(found), sum(status.st_size for _, status in found))
    with reproducible_tar(archive, gzip_level) as tar:
        for path, status in found:
            _add(tar, tree, path, status)
            progress.add(status.st_size)
            progress.file_done()


def _add(tar: tarfile.TarFile, tree: Path, path: Path, status: os.stat_result) -> None:
    # Not `tar.add`, which looks up the names of owner and group for each file: half its time.
    entry = tarfile.TarInfo(path.relative_to(tree).as_posix())
    entry.mode = status.st_mode
    if stat.S_ISREG(status.st_mode):
        entry.size = status.st_size
        with path.open("rb") as stream:
            tar.addfile(anonymous_entry(entry), stream)
        return
    if stat.S_ISLNK(status.st_mode):
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif stat.S_ISDIR(status.st_mode):
        entry.type = tarfile.DIRTYPE
    else:
        return  # a socket or a pipe, which no environment needs
    tar.addfile(anonymous_entry(entry))
