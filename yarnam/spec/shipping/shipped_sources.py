"""The files that a job ships: files, code, a packed environment."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from yarnam.core.model.job_spec import (
    BUNDLED_PYTHON,
    ContainerImage,
    ContainerRuntime,
    EnvironmentSpec,
    PackedFrom,
    PackSource,
    ShippedFile,
)
from yarnam.errors import BadSpec
from yarnam.spec.checks import Problems
from yarnam.spec.sections.document import Document
from yarnam.spec.sections.role_sections import ShippedPath
from yarnam.spec.shipping.script_check import missing_script
from yarnam.spec.shipping.shipped_folder import LocalFolder
from yarnam.spec.yaml_tree import Path

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
"""The archives that YARN's localizer unpacks (FileUtil.unTar and unZip, by extension)."""

CODE_NAME = "code"
ENVIRONMENT_NAME = "environment"
RESERVED_NAMES = frozenset({CODE_NAME, ENVIRONMENT_NAME, "hconf", "tmp"})
"""Names in a container's working directory that yarnam and YARN use."""

_FILE_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._+=@-]{1,100}", re.ASCII)
_REMOTE_SCHEMES = ("hdfs", "viewfs")


class Shipping:
    """Resolves sources relative to the spec's directory and checks that they exist."""

    def __init__(self, base_dir: FilePath, problems: Problems, *, check_paths: bool) -> None:
        self._base = base_dir
        self._problems = problems
        self._check_paths = check_paths

    def files(self, document: Document) -> tuple[ShippedFile, ...]:
        shipped: list[ShippedFile] = []
        if document.code is not None:
            place: Path = ("code", "path") if self._problems.has(("code", "path")) else ("code",)
            source = self._source(place, document.code.path, wants_directory=True)
            uses_git = document.code.ignore == "git"
            shipped.append(ShippedFile(CODE_NAME, source, uses_git_ignore=uses_git))
        names: set[str] = set()
        for index, entry in enumerate(document.files):
            path = ("files", index)
            file = self._file(path, entry)
            if file.name in names:
                self._problems.add(path, f"two files are named {file.name}; rename one")
            names.add(file.name)
            shipped.append(file)
        return tuple(shipped)

    def check_scripts(self, document: Document, files: Sequence[ShippedFile]) -> None:
        """Refuse commands whose script is not shipped: the gang would be acquired for nothing."""
        if not self._check_paths:
            return
        folders = {
            file.name: LocalFolder(FilePath(file.source), uses_git=file.uses_git_ignore)
            for file in files
            if "://" not in file.source and FilePath(file.source).is_dir()
        }
        commands: list[tuple[Path, Sequence[str]]] = [(("command",), document.command or ())]
        commands += [
            (("roles", name, "command"), role.command or ())
            for name, role in (document.roles or {}).items()
        ]
        names = [file.name for file in files]
        for path, command in commands:
            try:
                problem = missing_script(command, folders, names)
            except (BadSpec, OSError) as error:
                problem = str(error)
            if problem:
                self._problems.add(path, problem)

    def _file(self, path: Path, entry: ShippedPath) -> ShippedFile:
        place = (*path, "source") if self._problems.has((*path, "source")) else path
        source = self._source(place, entry.source)
        self._check_name(path, entry)
        if entry.archive:
            self._check_archive(place, source)
            if entry.executable:
                message = "an archive is unpacked and cannot be executable"
                self._problems.add((*path, "executable"), message)
        executable = entry.executable
        if executable is None and not entry.archive and "://" not in source:
            executable = _is_executable(source)
        return ShippedFile(_name_of(entry), source, entry.archive, executable=bool(executable))

    def _check_name(self, path: Path, entry: ShippedPath) -> None:
        name = _name_of(entry)
        place = (*path, "name") if entry.name is not None else path
        if name in RESERVED_NAMES or name.startswith((".skein", "yarnam-")):
            self._problems.add(place, f"the name {name!r} is reserved; choose another name")
        elif not _FILE_NAME.fullmatch(name):
            message = "needs a plain file name in the working directory; add name: (letters, digits"
            self._problems.add(place, f"{message}, `.`, `_`, `+`, `=`, `@`, `-`)")

    def environment(self, document: Document) -> EnvironmentSpec:
        """Where the job's Python comes from."""
        section = document.environment
        images = [
            ContainerImage(runtime, found.name, tuple(found.mounts))
            for runtime in ContainerRuntime
            if (found := getattr(section, runtime.value)) is not None
        ]
        if len(images) > 1:
            self._problems.add(("environment",), "docker and runc: a container has one runtime")
        return replace(self._python_of(document), image=images[0] if images else None)

    def _python_of(self, document: Document) -> EnvironmentSpec:
        section = document.environment
        if (packed_from := self._packed_from(document)) is not None:
            return EnvironmentSpec("bin/python", packed_from=packed_from)
        if section.archive is None:
            python = section.python or EnvironmentSpec().python
            if "/" in python and not python.startswith("/"):
                message = "must be an absolute path or a name on the nodes' PATH"
                self._problems.add(("environment", "python"), message)
            return EnvironmentSpec(python)
        source = self._source(("environment", "archive"), section.archive)
        self._check_archive(("environment", "archive"), source)
        python = section.python or "bin/python"
        if python == BUNDLED_PYTHON:
            message = "the archive has an interpreter of its own: leave python out"
            self._problems.add(("environment", "python"), message)
        if python.startswith("/") or ".." in PurePosixPath(python).parts:
            message = "must be a path inside the archive, such as bin/python"
            self._problems.add(("environment", "python"), message)
        return EnvironmentSpec(python, source)

    def _packed_from(self, document: Document) -> PackedFrom | None:
        section = document.environment
        given = [kind for kind in PackSource if getattr(section, kind.value) is not None]
        others = [key for key in ("archive", "python") if getattr(section, key) is not None]
        if not given:
            return None
        kind, place = given[0], ("environment", given[0].value)
        if extra := [*(each.value for each in given[1:]), *others]:
            message = f"{kind.value} brings a Python of its own: leave out {', '.join(extra)}"
            self._problems.add(place, message)
        text = str(getattr(section, kind.value))
        if kind is PackSource.VENV and text == "active":
            return PackedFrom(kind, text)
        is_directory = kind in (PackSource.VENV, PackSource.PYPROJECT)
        return PackedFrom(kind, self._local(place, self._base / text, wants_directory=is_directory))

    def _source(self, path: Path, text: str, *, wants_directory: bool = False) -> str:
        """An absolute local path, or the URI as it is."""
        if "://" not in text and not text.startswith("file:"):
            return self._local(path, self._base / text, wants_directory=wants_directory)
        try:
            parts = urlsplit(text)
        except ValueError:
            self._problems.add(path, "is not a valid URI")
            return text
        if parts.scheme == "file":
            return self._local(path, FilePath(unquote(parts.path)), wants_directory=wants_directory)
        if parts.scheme not in _REMOTE_SCHEMES:
            message = f"cannot ship from {parts.scheme}://; use a local path or hdfs://"
            self._problems.add(path, message)
        elif wants_directory:
            self._problems.add(path, "must be a local directory")
        elif not parts.path.strip("/"):
            self._problems.add(path, "has no path")
        return text

    def _local(self, path: Path, file: FilePath, *, wants_directory: bool) -> str:
        source = os.path.normpath(file)
        if not self._check_paths:
            return source
        try:
            mode = FilePath(source).stat().st_mode
        except OSError as error:
            missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
            reason = "no such file" if missing else f"cannot be read: {error.strerror}"
            hint = " (`~` is not expanded)" if "~" in file.parts else ""
            self._problems.add(path, f"{reason}: {source}{hint}")
            return source
        if not os.access(source, os.R_OK):
            self._problems.add(path, f"no permission to read {source}")
        elif wants_directory and not stat.S_ISDIR(mode):
            self._problems.add(path, f"must be a directory: {source} is a file")
        elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            self._problems.add(path, f"is neither a file nor a directory: {source}")
        return source

    def _check_archive(self, path: Path, source: str) -> None:
        if not source.lower().endswith(ARCHIVES):
            known = ", ".join(ARCHIVES)
            self._problems.add(path, f"is not an archive that YARN can unpack ({known}): {source}")
        elif self._check_paths and "://" not in source and FilePath(source).is_dir():
            self._problems.add(path, f"is a directory, not an archive: {source}")


def _name_of(entry: ShippedPath) -> str:
    if entry.name is not None:
        return entry.name
    # `.` and `dir/` name the directory itself, known only once the path is absolute: the caller's
    # check of the name refuses what is left empty.
    name = PurePosixPath(entry.source.rstrip("/")).name
    if entry.archive:
        for extension in ARCHIVES:
            name = name.removesuffix(extension)
    return name


def _is_executable(source: str) -> bool:
    try:
        mode = FilePath(source).stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IXUSR)
