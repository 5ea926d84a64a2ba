"""Install packages into the copy of an interpreter: by uv if there is one, else by pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import Record, decode_record
from yarnam.client.environments.requirement_files import RequirementLine, lines_named_in
from yarnam.errors import BadConfig, BadSpec
from yarnam.errors.full_disks import full_disk_in

INSTALL_LIMIT_S = 3600.0
"""The time for resolving, downloading and unpacking: a full PyTorch with CUDA is 4.8 GB."""

MAX_REPORT_BYTES = 64 << 20
"""pip's report has the metadata of each package, with its description."""
MAX_PACKAGES = 10_000

MOST_LINES = 12
"""The last lines of an installer's output that are shown."""

_INSTALL_UV = "Install uv: pip install 'yarnam[environments]'"


def find_uv() -> str:
    """The path of uv; empty if it is not installed."""
    beside = Path(sysconfig.get_path("scripts")) / "uv"
    return str(beside) if beside.exists() else shutil.which("uv") or ""


def resolve(file: Path, lines: Sequence[RequirementLine], python: Path) -> str:
    """All packages that ``file`` asks for on ``python``, which is this Python, in the form of a
    requirements file: with exact versions, and with hashes as far as the index has them. Raises as
    ``install``."""
    if uv := find_uv():
        command = [uv, "pip", "compile", "--python", str(python), "--generate-hashes", "--quiet"]
        command += ["--no-header", "--no-annotate", *_only_binary(lines), str(file)]
        return run_installer(command, file, lines)
    command = [*_pip(file), "install", "--dry-run", "--ignore-installed", "--report", "-"]
    report = run_installer([*command, *_QUIET_PIP, *_ONLY_BINARY, "-r", str(file)], file, lines)
    try:
        rows = decode_record(report.encode(), max_bytes=MAX_REPORT_BYTES).records(
            "install", max_count=MAX_PACKAGES
        )
        return "".join(sorted(f"{_pinned(row, file.parent)}\n" for row in rows))
    except MalformedData as error:
        raise BadConfig(f"pip's report on {file} cannot be read: {error.message}") from error


def _pinned(row: Record, folder: Path) -> str:
    """One package of pip's report as a line of a requirements file in ``folder``."""
    metadata, source = row.record("metadata"), row.record("download_info")
    name = metadata.text("name")
    version = metadata.text("version")
    what = f"{name}=={version}"
    if row.flag("is_direct", default=False):
        url = _direct_url(source)
        local = os.path.relpath(unquote(urlsplit(url).path), folder)
        what = f"./{local}" if url.startswith("file:") else f"{name} @ {url}"
    hashes = source.record("archive_info").plain.get("hashes") if "archive_info" in source else {}
    digest = hashes.get("sha256") if isinstance(hashes, dict) else None
    return f"{what} --hash=sha256:{digest}" if digest else what


def _direct_url(source: Record) -> str:
    url = source.text("url", max_length=10_000)
    if "vcs_info" not in source:
        return url
    vcs = source.record("vcs_info")
    return f"{vcs.text('vcs')}+{url}@{vcs.text('commit_id')}"


def install(
    python: Path,
    file: Path,
    resolved: Path,
    lines: Sequence[RequirementLine],
    *,
    with_hashes: bool = False,
) -> None:
    """Install the packages that ``resolved`` names for ``file`` into the prefix of ``python``.
    Raises BadSpec with the lines that the installer complains of, and BadConfig: there is no
    installer, or it does not end."""
    is_whole = resolved != file
    binary = _ONLY_BINARY
    if uv := find_uv():
        binary = _only_binary(lines)
        command = [uv, "pip", "install", "--python", str(python), "--break-system-packages"]
        command += ["--quiet", "--link-mode", "copy"]  # the cache's own files stay as they are
    else:
        command = [*_pip(file), "--python", str(python), "install", "--no-compile", *_QUIET_PIP]
    if is_whole:
        command += ["--no-deps", *binary]
    hashes = ["--require-hashes"] if with_hashes else []
    run_installer([*command, *hashes, "-r", str(resolved)], file, lines)


def _pip(file: Path) -> list[str]:
    if file.suffix == ".toml":
        raise BadSpec(f"{file.name} can be read by uv only, and there is none", hint=_INSTALL_UV)
    if not _has_pip():
        raise BadConfig("there is neither uv nor pip to install packages", hint=_INSTALL_UV)
    return [sys.executable, "-m", "pip"]


_QUIET_PIP = ("--disable-pip-version-check", "--no-input", "--quiet")

_ONLY_BINARY = ["--only-binary", ":all:"]
"""Building from source runs code of whoever uploaded it, on the submitting machine."""

_SOURCE = re.compile(r"\b(?:git|hg|svn|bzr)\+|\.(?:tar\.\w+|tgz|zip)(?:$|[\s#;])")


def _only_binary(lines: Sequence[RequirementLine]) -> list[str]:
    """For uv, which else refuses the source archives and repositories that the file itself names.
    pip builds these, and both build what a line ``--no-binary NAME`` names."""
    return [] if any(_SOURCE.search(line.text) for line in lines) else _ONLY_BINARY


def index_settings(file: Path, environ: Mapping[str, str]) -> list[bytes]:
    """What says where packages come from: variables, and the installers' own files. They may hold
    passwords."""
    home = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    files = [
        Path(environ.get("PIP_CONFIG_FILE") or home / "pip" / "pip.conf"),
        *(Path(name).expanduser() for name in ("~/.pip/pip.conf", "/etc/pip.conf")),
        Path(sys.prefix, "pip.conf"),
        Path(environ.get("UV_CONFIG_FILE") or home / "uv" / "uv.toml"),
        Path("/etc/uv/uv.toml"),
        file.parent / "uv.toml",
    ]
    found = [f"{name}={environ[name]}".encode() for name in _INDEX_VARIABLES if name in environ]
    for path in files:
        with suppress(OSError):
            found.append(path.read_bytes())
    return [*found, b"uv" if find_uv() else b"pip"]


_INDEX_VARIABLES = (
    "PIP_CONSTRAINT", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_NO_BINARY",
    "PIP_NO_INDEX", "PIP_ONLY_BINARY", "PIP_PRE", "UV_CONSTRAINT", "UV_DEFAULT_INDEX",
    "UV_EXCLUDE_NEWER", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX", "UV_INDEX_STRATEGY",
    "UV_INDEX_URL", "UV_NO_BINARY", "UV_NO_INDEX", "UV_OVERRIDE", "UV_PRERELEASE", "UV_RESOLUTION",
)  # fmt: skip


def _has_pip() -> bool:
    # Looking for the module runs what setuptools hangs into imports, which warns.
    try:
        distribution("pip")
    except PackageNotFoundError:
        return False
    return True


def export_uv_lock(lock: Path, target: Path) -> None:
    """``uv.lock`` as a requirements file with hashes, without the project itself. Raises BadSpec if
    there is no uv, or the lock does not match ``pyproject.toml``."""
    if not (uv := find_uv()):
        raise BadSpec(f"{lock.name} can be read by uv only, and there is none", hint=_INSTALL_UV)
    command = [uv, "export", "--locked", "--no-emit-project", "--no-dev", "--quiet"]
    command += ["--project", str(lock.parent), "--output-file", str(target)]
    run_installer(command, lock, [])


def run_installer(command: Sequence[str], file: Path, lines: Sequence[RequirementLine]) -> str:
    """Run it to its end in the directory of ``file`` and return its output; see ``install`` for the
    errors."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_PASSED}
    try:
        done = subprocess.run(
            command, env=env, cwd=file.parent, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=INSTALL_LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BadConfig(f"{command[0]} did not end within {INSTALL_LIMIT_S:.0f} s") from error
    except OSError as error:
        raise BadConfig(f"cannot run {command[0]}: {error}") from error
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.strip() or done.stdout.strip()
    if full := full_disk_in(said):
        raise full
    named = [str(line) for line in lines_named_in(said, list(lines))]
    last = said.splitlines()[-MOST_LINES:]
    raise BadSpec("\n".join([f"cannot make the environment of {file}:", *named, *last]))


_NOT_PASSED = frozenset({"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX"})
"""They name another environment than the one that is made."""
