"""Conda environments: made by conda, mamba or micromamba, packed by conda-pack."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from yarnam.client.environments.package_installer import run_installer
from yarnam.client.environments.requirement_files import plain_lines
from yarnam.client.environments.site_packages import fingerprint
from yarnam.errors import BadConfig

MAKERS = ("micromamba", "mamba", "conda")
"""The quickest first."""


def find_tools(environ: Mapping[str, str]) -> tuple[str, str]:
    """Paths of the program that makes environments and of conda-pack. Raises BadConfig."""
    path = environ.get("PATH")
    maker = next((found for name in MAKERS if (found := shutil.which(name, path=path))), None)
    packer = shutil.which("conda-pack", path=path)
    if maker and packer:
        return maker, packer
    missing = "none of " + ", ".join(MAKERS) if not maker else "no conda-pack"
    raise BadConfig(
        f"environment: conda cannot be used here: {missing} on this machine's PATH ({path})",
        hint="Install it, or pack the environment elsewhere and name its archive"
        " (environment: {archive: ...}); requirements: needs no conda.",
    )


def parts(source: Path) -> list[bytes]:
    """The content that determines the environment of a file, or of a directory."""
    return [fingerprint([source]).encode() if source.is_dir() else source.read_bytes()]


def fill(tools: tuple[str, str], source: Path, tree: Path, report: Callable[[str], None]) -> None:
    """Put the environment of an ``environment.yml``, or of a prefix, into ``tree``. Raises BadSpec
    with the tool's output."""
    maker, packer = tools
    with tempfile.TemporaryDirectory(dir=tree.parent) as scratch:
        prefix = source
        if not source.is_dir():
            prefix = Path(scratch) / "prefix"
            report(f"Making the conda environment of {source.name}")
            what = ["create"] if maker.endswith("micromamba") else ["env", "create"]
            command = [maker, *what, "--yes", "--prefix", str(prefix), "--file", str(source)]
            run_installer(command, source, plain_lines(source))
        archive = Path(scratch) / "packed.tar"
        report("Packing the conda environment")
        command = [packer, "--prefix", str(prefix), "--output", str(archive), "--quiet"]
        run_installer(command, source, [])
        with tarfile.open(archive) as packed:
            packed.extractall(tree)  # noqa: S202 - made by the tool just now
