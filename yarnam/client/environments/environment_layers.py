"""Large packages of an environment in an archive of their own, a layer, which later environments
use again.

A layer holds ``site-packages`` and ``bin``. What finds its parts by their place stays together: the
packages that share a directory (``nvidia``), and those whose libraries name another package's
directory in their run paths (torch and its CUDA wheels). A layer is named by the content of its
packages, so that any environment with them has the same one. A note beside its archive says which
lines of resolved requirements it stands for, so that they need not be installed again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from yarnam.client.environments.local_cache import is_cached
from yarnam.client.environments.requirement_files import normalized
from yarnam.client.environments.shared_libraries import run_paths
from yarnam.wire.protocol import ENV_LAYERS, LAYER_PREFIX

FORMAT = 1
"""Goes into the name: raise it when the layout or the choice of files changes."""

LEAST_LAYER_BYTES = 64 << 20
"""Packages that belong together and are smaller stay with the interpreter: a layer costs each
container one more archive to localize."""

ARCHIVE_SUFFIX = ".tar.gz"
SITE, SCRIPTS = "site-packages", "bin"

FILE_PREFIX = "layer-"
_NOTE = ".note"
_PINNED = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\[[^]]*\])?==\S+")
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_HOOK = "_yarnam_layers"
_HOOK_CODE = f'''"""Adds the layers of this environment to sys.path."""
import os, site, sys

_beside = os.path.dirname(sys.prefix)
_found = os.environ.get("{ENV_LAYERS}") or ":".join(
    os.path.join(_beside, name)
    for name in sorted(os.listdir(_beside)) if name.startswith("{LAYER_PREFIX}")
)
for _layer in filter(None, _found.split(":")):
    site.addsitedir(os.path.join(_layer, "{SITE}"))
'''


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """``files`` are relative to the directory of packages, ``scripts`` to that of programs."""

    name: str
    content: str
    """A digest of its list of files, which has the digest of each."""
    files: tuple[str, ...]
    scripts: tuple[str, ...]
    size_bytes: int
    is_movable: bool
    """All of its files are in these two directories."""
    needs: frozenset[str] = frozenset()
    """Directories of other packages that its libraries name in their run paths."""

    @property
    def places(self) -> frozenset[str]:
        """Its own directories, and those that it needs."""
        return self.needs | {name.partition("/")[0] for name in self.files}


@dataclass(frozen=True, slots=True)
class LayerNote:
    """The content of a layer's archive, read from the note beside it."""

    archive: Path
    interpreter: str
    lines: frozenset[str]
    """Digests of the requirements that it stands for (``requirement_blocks``)."""
    names: frozenset[str]
    """Its packages."""
    places: frozenset[str]
    """Directories that are in it, or that its libraries name in their run paths."""
    scripts: Mapping[str, bytes]
    """Programs by name."""


def requirement_blocks(resolved: str) -> dict[str, str]:
    """The exact versions of a resolved requirements file by package: each with its hashes. What
    comes from a URL or a path has none: its name does not say what is in it."""
    return {name: line for line in _joined(resolved) if (name := _name_in(line))}


def without_packages(resolved: str, excluded: frozenset[str]) -> list[str]:
    """The other lines of a resolved requirements file, each with its hashes."""
    return [line for line in _joined(resolved) if _name_in(line) not in excluded]


def _joined(resolved: str) -> list[str]:
    lines = (" ".join(line.split()) for line in resolved.replace("\\\n", " ").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _name_in(line: str) -> str:
    found = _PINNED.match(line)
    return normalized(found[1]) if found else ""


def digest_of(block: str) -> str:
    return hashlib.sha256(block.encode()).hexdigest()[:20]


def installed_packages(site: Path) -> list[InstalledPackage]:
    """The packages in a directory, by name."""
    found = [_package(site, each) for each in distributions(path=[str(site)])]
    return sorted(found, key=lambda each: each.name)


def _package(site: Path, distribution: Distribution) -> InstalledPackage:
    files, scripts, size, is_movable = [], [], 0, True
    for entry in distribution.files or []:
        name = os.path.normpath(entry)
        parts = name.split("/")
        if "__pycache__" in parts:
            continue
        if parts[0] not in ("", ".."):
            files.append(name)
            with suppress(OSError):
                size += (site / name).lstat().st_size
        elif len(parts) == 5 and parts[3] == SCRIPTS:  # ../../../bin/NAME
            scripts.append(parts[4])
        else:
            is_movable = False
    record = distribution.read_text("RECORD") or ""
    listed = sorted(line for line in record.splitlines() if not line.startswith(".."))
    return InstalledPackage(
        normalized(distribution.name),
        hashlib.sha256("\n".join(listed).encode()).hexdigest(),
        tuple(sorted(files)),
        tuple(sorted(scripts)),
        size,
        is_movable and bool(record),
        _needs(site, files),
    )


def _needs(site: Path, files: Iterable[str]) -> frozenset[str]:
    libraries = [site / name for name in files if _LIBRARY.search(name)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = {
            os.path.relpath(os.path.normpath(path), site).partition("/")[0]
            for paths in pool.map(run_paths, libraries)
            for path in paths
        }
    return frozenset(found - {"", ".", ".."})


def together(packages: Sequence[InstalledPackage]) -> list[list[InstalledPackage]]:
    """Packages in groups of those that find each other by their place."""
    groups: list[tuple[set[str], list[InstalledPackage]]] = []
    for each in packages:
        places = set(each.places)
        members = [each]
        separate = []
        for other_places, others in groups:
            if places & other_places:
                places |= other_places
                members = [*others, *members]
            else:
                separate.append((other_places, others))
        groups = [*separate, (places, members)]
    return [members for _, members in groups]


def large_packages(packages: Sequence[InstalledPackage]) -> list[InstalledPackage]:
    """Those that make a layer; empty if nothing is large enough."""
    large = [
        each
        for group in together(packages)
        if all(member.is_movable for member in group)
        and sum(member.size_bytes for member in group) >= LEAST_LAYER_BYTES
        for each in group
    ]
    return sorted(large, key=lambda each: each.name)


def layer_name(interpreter: str, packages: Sequence[InstalledPackage]) -> str:
    """The file name of a layer for the interpreter with this key."""
    lines = [f"{FORMAT} {interpreter}", *(f"{each.name} {each.content}" for each in packages)]
    key = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:20]
    return f"{FILE_PREFIX}{key}{ARCHIVE_SUFFIX}"


def environment_name(key: str, layers: Sequence[Path] = ()) -> str:
    """The file name of an environment has the keys of its layers in it."""
    keys = (path.name.removeprefix(FILE_PREFIX).removesuffix(ARCHIVE_SUFFIX) for path in layers)
    return ".".join([key, *keys]) + ARCHIVE_SUFFIX


def layers_named(name: str) -> list[str]:
    """The file names of the layers that an environment's file name has in it."""
    _, *keys = name.removesuffix(ARCHIVE_SUFFIX).split(".")
    return [f"{FILE_PREFIX}{key}{ARCHIVE_SUFFIX}" for key in keys]


def take_out(tree: Path, site: Path, packages: Sequence[InstalledPackage], layer: Path) -> None:
    """Move packages into a new layer. Their programs stay beside the interpreter too."""
    (layer / SCRIPTS).mkdir(parents=True)
    parents = {name.rpartition("/")[0] for each in packages for name in each.files}
    for parent in sorted(parents):
        (layer / SITE / parent).mkdir(parents=True, exist_ok=True)
    for each in packages:
        for name in each.files:
            with suppress(FileNotFoundError):
                (site / name).rename(layer / SITE / name)
        for name in each.scripts:
            with suppress(FileNotFoundError):
                (layer / SCRIPTS / name).write_bytes((tree / "bin" / name).read_bytes())
    for place in {place for each in packages for place in each.places}:
        for folder, _, _ in os.walk(site / place, topdown=False):
            with suppress(OSError):  # other files are left in it
                Path(folder).rmdir()


def add_hook(site: Path) -> None:
    """Let the environment's interpreter find its layers."""
    (site / f"{_HOOK}.py").write_text(_HOOK_CODE)
    (site / f"{_HOOK}.pth").write_text(f"import {_HOOK}\n")


def write_note(
    archive: Path,
    interpreter: str,
    packages: Sequence[InstalledPackage],
    blocks: Mapping[str, str],
    layer: Path,
) -> None:
    """Say beside the archive what it stands for, if each package has its line in ``blocks``."""
    if not all(each.name in blocks for each in packages):
        return
    rows = [f"interpreter {interpreter}"]
    rows += [f"line {digest_of(blocks[each.name])}" for each in packages]
    rows += [f"name {each.name}" for each in packages]
    rows += [f"place {name}" for name in sorted({p for each in packages for p in each.places})]
    for path in sorted((layer / SCRIPTS).iterdir()):
        rows.append(f"script {path.name} {path.read_bytes().hex()}")
    archive.with_name(f"{archive.name}{_NOTE}").write_text("\n".join(rows), encoding="utf-8")


def usable_layers(folder: Path, interpreter: str, blocks: Mapping[str, str]) -> list[LayerNote]:
    """Layers in the local cache all of whose packages are wanted in just these versions; of two
    with the same package, the larger one. Raises BadConfig as ``is_cached``."""
    wanted = {digest_of(block) for block in blocks.values()}
    notes = [note for note in _notes(folder) if note.lines and note.lines <= wanted]
    found: list[LayerNote] = []
    for note in sorted(notes, key=lambda each: (-len(each.lines), each.archive.name)):
        has_own_places = not any(note.places & other.places for other in found)
        if has_own_places and note.interpreter == interpreter and is_cached(note.archive):
            found.append(note)
    return found


def _notes(folder: Path) -> Iterator[LayerNote]:
    for path in sorted(folder.glob(f"{FILE_PREFIX}*{_NOTE}")):
        with suppress(OSError, ValueError):
            rows = [line.split(" ", 2) for line in path.read_text("utf-8").splitlines()]
            values: dict[str, list[str]] = {}
            for row in rows:
                values.setdefault(row[0], []).append(row[1])
            yield LayerNote(
                archive=path.with_name(path.name.removesuffix(_NOTE)),
                interpreter=values.get("interpreter", [""])[0],
                lines=frozenset(values.get("line", ())),
                names=frozenset(values.get("name", ())),
                places=frozenset(values.get("place", ())),
                scripts={row[1]: bytes.fromhex(row[2]) for row in rows if row[0] == "script"},
            )


def share_no_place(packages: Sequence[InstalledPackage], layers: Sequence[LayerNote]) -> bool:
    """Whether none of the packages shares a directory with a layer, or names one of a layer's."""
    places = {place for each in packages for place in each.places}
    return not any(places & note.places for note in layers)
