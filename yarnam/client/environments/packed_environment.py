"""Environments that submit makes: an interpreter with packages, as an archive for all nodes, and
layers with its large packages.

Each is named by what it is made from, so that it is made once and stored once. The tree is that of
``interpreter_archive``, with packages in ``lib/python3.X/site-packages``; a conda environment is as
conda-pack has it, and has no layers.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hdfs_utils.transfer import Progress
from yarnam.client.environments import conda_environments, environment_layers
from yarnam.client.environments.environment_layers import requirement_blocks, without_packages
from yarnam.client.environments.interpreter_archive import (
    Interpreter,
    build_interpreter,
    compile_tree,
    interpreter_from,
    own_interpreter,
    pack_tree,
)
from yarnam.client.environments.local_cache import (
    BUILDING_PREFIX,
    RESOLVED_FOLDER,
    check_cache,
    is_cached,
)
from yarnam.client.environments.package_installer import (
    export_uv_lock,
    index_settings,
    install,
    resolve,
)
from yarnam.client.environments.requirement_files import (
    RequirementLine,
    local_wheels,
    option_lines,
    plain_lines,
    requirement_lines,
)
from yarnam.client.environments.site_packages import (
    copy_packages,
    copy_scripts,
    facts_of,
    find_venv,
    fingerprint,
    make_scripts_relative,
    refuse_what_stays_here,
)
from yarnam.core.model.job_spec import PackedFrom, PackSource
from yarnam.errors import BadConfig, BadSpec
from yarnam.errors.full_disks import full_disk_in

FORMAT = 3
"""Goes into the name: raise it when what is packed changes."""

RESOLVED_FOR_S = 3600.0
"""How long the packages that a file asked for count as what it asks for now."""

PEX_LIMIT_S = 600.0
"""The time for a PEX file's own start, which unpacks it."""

_SHOWN = 5
_GZIP_LEVEL = 1
"""Shared libraries are most of it."""

log = logging.getLogger(__name__)

OpenProgress = Callable[[str], AbstractContextManager[Progress]]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an environment is made: ``fill`` puts it into an empty directory without the packages of
    these names, and may say what it does. Raises BadSpec, BadConfig."""

    key: str
    fill: Callable[[Path, Report, frozenset[str]], None]
    interpreter: Interpreter | None = None
    """``None`` if it cannot have layers."""
    blocks: Mapping[str, str] = field(default_factory=dict)
    """Resolved requirements by the names of packages, as far as their versions are exact."""

    @property
    def file_name(self) -> str:
        """The file name of an archive that has no layers."""
        return environment_layers.environment_name(self.key)


def recipe_of(given: PackedFrom, cache: Path, environ: Mapping[str, str]) -> Recipe:
    """Reads what the environment is made from; makes nothing yet. Raises BadSpec, BadConfig."""
    source = Path(given.path)
    if given.kind is PackSource.CONDA:
        tool = conda_environments.find_tools(environ)
        key = _key(given, conda_environments.parts(source))
        return Recipe(
            key, lambda tree, report, _: conda_environments.fill(tool, source, tree, report)
        )
    if given.kind is PackSource.VENV:
        return _of_venv(given, find_venv(given.path, environ), cache)
    interpreter = own_interpreter()
    if given.kind is PackSource.PEX:
        key = _key(given, [interpreter.key.encode(), source.read_bytes()])
        return Recipe(
            key, lambda tree, *_: _fill_from_pex(interpreter, source, cache, tree), interpreter
        )
    return _of_requirements(given, source, interpreter, cache, environ)


def build_environment(
    recipe: Recipe, cache: Path, report: Report, open_progress: OpenProgress
) -> list[Path]:
    """The archive in the local cache and those of its layers, made there if they are not. Safe
    under concurrent builders. Raises BadSpec, BadConfig."""
    folder = cache / "environments"
    if found := _cached(folder, recipe.key):
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=BUILDING_PREFIX) as scratch:
        tree = Path(scratch) / "tree"
        layers = _fill(recipe, folder, tree, report)
        if recipe.interpreter is not None:
            site = _site_of(tree, recipe.interpreter)
            layers += _new_layer(recipe, folder, tree, Path(scratch), report, open_progress)
            if layers:
                environment_layers.add_hook(site)
            report("Compiling the modules")
            compile_tree(tree / "bin" / recipe.interpreter.name, site)
        name = environment_layers.environment_name(recipe.key, layers)
        archive = Path(scratch) / name
        with open_progress("Packing the environment") as progress:
            pack_tree(tree, archive, _GZIP_LEVEL, progress)
        archive.replace(folder / name)
    return [folder / name, *layers]


def _cached(folder: Path, key: str) -> list[Path]:
    for path in sorted(folder.glob(f"{key}*{environment_layers.ARCHIVE_SUFFIX}")):
        found = [path, *(folder / name for name in environment_layers.layers_named(path.name))]
        if all(map(is_cached, found)):
            return found
    return []


def _fill(recipe: Recipe, folder: Path, tree: Path, report: Report) -> list[Path]:
    """Fill the new directory ``tree``, without what earlier layers hold; returns these."""
    interpreter = recipe.interpreter
    notes = (
        environment_layers.usable_layers(folder, interpreter.key, recipe.blocks)
        if interpreter is not None
        else []
    )
    excluded = frozenset(name for note in notes for name in note.names)
    if excluded:
        size = sum(note.archive.stat().st_size for note in notes) / 1e6
        report(f"Using {len(excluded)} packages of earlier environments again ({size:.0f} MB)")
    tree.mkdir()
    recipe.fill(tree, report, excluded)
    if interpreter is None or not notes:
        return []
    installed = environment_layers.installed_packages(_site_of(tree, interpreter))
    if not environment_layers.share_no_place(installed, notes):
        report("The other packages belong beside them: everything is installed again")
        shutil.rmtree(tree)
        tree.mkdir()
        recipe.fill(tree, report, frozenset())
        return []
    for note in notes:
        for name, code in note.scripts.items():
            program = tree / "bin" / name
            if not program.exists():
                program.write_bytes(code)
                program.chmod(0o755)
    return [note.archive for note in notes]


def _new_layer(
    recipe: Recipe,
    folder: Path,
    tree: Path,
    scratch: Path,
    report: Report,
    open_progress: OpenProgress,
) -> list[Path]:
    """Take the large packages out of ``tree`` into a layer's archive; empty if there are none."""
    interpreter = recipe.interpreter
    assert interpreter is not None
    site = _site_of(tree, interpreter)
    installed = environment_layers.installed_packages(site)
    count = sum(len(each.files) for each in installed)
    report(f"Installed {count} files, {sum(each.size_bytes for each in installed) / 1e6:.0f} MB")
    large = environment_layers.large_packages(installed)
    if not large:
        return []
    name = environment_layers.layer_name(interpreter.key, large)
    layer, archive = scratch / "layer", scratch / name
    environment_layers.take_out(tree, site, large, layer)
    if not is_cached(folder / name):
        report(f"Compiling the modules of {', '.join(each.name for each in large[:_SHOWN])}")
        compile_tree(tree / "bin" / interpreter.name, layer / environment_layers.SITE)
        with open_progress(f"Packing {len(large)} large packages") as progress:
            pack_tree(layer, archive, _GZIP_LEVEL, progress)
        archive.replace(folder / name)
        environment_layers.write_note(folder / name, interpreter.key, large, recipe.blocks, layer)
    return [folder / name]


def _key(given: PackedFrom, parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256(f"{FORMAT} {given.kind.value}".encode())
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()[:20]


def _of_requirements(
    given: PackedFrom,
    source: Path,
    interpreter: Interpreter,
    cache: Path,
    environ: Mapping[str, str],
) -> Recipe:
    if given.kind is PackSource.PYPROJECT:
        source /= "pyproject.toml"
    elif given.kind is PackSource.LOCK and source.suffix not in (".txt", ".toml", ".lock"):
        raise BadSpec(f"{source}: a lock is a uv.lock, a pylock.toml or a requirements file")
    elif given.kind is PackSource.LOCK and source.suffix == ".lock" and source.name != "uv.lock":
        raise BadSpec(
            f"{source} is a lock of another tool than uv",
            hint="Export it as a requirements file with hashes (poetry export), and name that.",
        )
    is_plain = source.suffix not in (".toml", ".lock")
    lines = requirement_lines(source) if is_plain else plain_lines(source)
    files = [*dict.fromkeys([source, *(line.file for line in lines)])]
    if is_plain:
        files += local_wheels(source.parent, lines)
    settings = index_settings(source, environ)
    parts = [interpreter.key.encode(), *settings, *(file.read_bytes() for file in files)]
    resolved = ""
    if given.kind is not PackSource.LOCK:
        note = cache / RESOLVED_FOLDER / _key(given, parts)
        resolved = _resolved(source, lines, interpreter, note)
        parts.append(resolved.encode())

    blocks = requirement_blocks(resolved)

    def fill(tree: Path, report: Report, excluded: frozenset[str]) -> None:
        python = _copy_of(interpreter, cache, tree)
        report(
            f"Installing the packages of {source.name}; then they are compiled, packed and uploaded"
        )
        if given.kind is PackSource.LOCK:
            _install_lock(python, source, lines, tree)
        else:
            # Not in the environment, which others may read: URLs may have passwords.
            file = tree.parent / "resolved.txt"
            options = option_lines(lines) if is_plain else []
            wanted = without_packages(resolved, excluded)
            file.write_text("\n".join([*options, *wanted]), encoding="utf-8")
            if wanted:
                install(python, source, file, lines, with_hashes=_has_all_hashes(resolved))
        make_scripts_relative(tree / "bin")

    return Recipe(_key(given, parts), fill, interpreter, blocks)


def _resolved(
    source: Path, lines: Sequence[RequirementLine], interpreter: Interpreter, note: Path
) -> str:
    """Resolve the file's packages, at most once an hour: jobs that are submitted in a row get the
    same. Raises BadSpec, BadConfig if they cannot be resolved, unless they were before."""
    check_cache(note.parent)
    earlier, age_s = "", 0.0
    with suppress(OSError, UnicodeDecodeError):
        earlier, age_s = note.read_text("utf-8"), time.time() - note.stat().st_mtime
    if earlier and 0 <= age_s < RESOLVED_FOR_S:
        return earlier
    try:
        found = resolve(source, lines, interpreter.executable)
    except (BadSpec, BadConfig) as error:
        if not earlier:
            raise
        log.warning(
            "The packages of %s are those of %.0f h ago, since they cannot be resolved now: %s",
            source, age_s / 3600, error.message,
        )  # fmt: skip
        return earlier
    note.parent.mkdir(parents=True, exist_ok=True)
    draft = note.with_name(f"{BUILDING_PREFIX}{note.name}-{os.getpid()}")
    draft.touch(0o600)
    draft.write_text(found, encoding="utf-8")
    draft.replace(note)
    return found


def _has_all_hashes(resolved: str) -> bool:
    joined = resolved.replace("\\\n", " ").splitlines()
    packages = [line for line in joined if line.strip() and line.strip()[0] not in "#-"]
    return bool(packages) and all("--hash=" in line for line in packages)


def _install_lock(python: Path, source: Path, lines: Sequence[RequirementLine], tree: Path) -> None:
    if source.name != "uv.lock":
        install(python, source, source, lines, with_hashes=source.suffix == ".txt")
        return
    exported = tree.parent / "requirements.txt"
    export_uv_lock(source, exported)
    install(python, exported, exported, plain_lines(exported), with_hashes=True)


def _of_venv(given: PackedFrom, folder: Path, cache: Path) -> Recipe:
    facts = facts_of(folder / "bin" / "python")
    interpreter, site = interpreter_from(facts), Path(facts["site_packages"])
    refuse_what_stays_here(site)
    parts = [interpreter.key.encode(), fingerprint([site, folder / "bin"]).encode()]

    def fill(tree: Path, *_: object) -> None:
        _copy_of(interpreter, cache, tree)
        copy_packages(site, _site_of(tree, interpreter), ["pip", "pip-*"])
        copy_scripts(folder / "bin", tree / "bin")
        make_scripts_relative(tree / "bin")

    return Recipe(_key(given, parts), fill, interpreter)


def _fill_from_pex(interpreter: Interpreter, pex: Path, cache: Path, tree: Path) -> None:
    """The packages of a PEX file, unpacked by its own start."""
    python = _copy_of(interpreter, cache, tree)
    with tempfile.TemporaryDirectory(prefix="yarnam-pex-") as root:
        env = {"PATH": f"{python.parent}:{os.defpath}", "PEX_ROOT": root, "PEX_INTERPRETER": "1"}
        code = "import sys; print('\\n'.join(p for p in sys.path if p.startswith(sys.argv[1])))"
        command = [str(python), str(pex), "-c", code, os.path.realpath(root)]
        try:
            done = subprocess.run(
                command, env=env, capture_output=True, text=True, errors="replace",
                timeout=PEX_LIMIT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BadSpec(f"cannot unpack {pex}: {error}") from error
        if done.returncode or not done.stdout.strip():
            if full := full_disk_in(done.stderr, root):
                raise full
            said = (done.stderr.strip() or "it holds no packages")[-1000:]
            raise BadSpec(f"cannot unpack {pex} with Python {interpreter.version}: {said}")
        own = [".bootstrap", ".deps", "__pex__", "__main__.py", "PEX-INFO", ".prefix"]
        for entry in done.stdout.splitlines():
            if Path(entry).is_dir():
                copy_packages(Path(entry), _site_of(tree, interpreter), own)
    make_scripts_relative(tree / "bin")


def _copy_of(interpreter: Interpreter, cache: Path, tree: Path) -> Path:
    with tarfile.open(build_interpreter(interpreter, cache)) as archive:
        # Not `filter=`: Python 3.10 and early 3.11 lack it, and the archive is our own.
        archive.extractall(tree)  # noqa: S202
    _site_of(tree, interpreter).mkdir()
    return tree / "bin" / interpreter.name


def _site_of(tree: Path, interpreter: Interpreter) -> Path:
    return tree / "lib" / interpreter.name / "site-packages"
