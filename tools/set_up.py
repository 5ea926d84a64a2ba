"""Set up ``.venv`` for ``make demo`` and ``make test``, from any Python 3.10+ and nothing else.

Usage: ``python3 tools/set_up.py {demo,test}``. Standard library only. Does nothing when the last
set-up was for the same pyproject.toml and the same Python. Where packages come from is pip's own
business (``PIP_INDEX_URL``, ``pip.conf``): nothing here names an index.
"""

import argparse
import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "yarnam-set-up.json"
OLDEST = (3, 10)
NEWEST_TRIED = (3, 13)
PIP = "pip>=25.1"  # the first that knows --group

WHAT = {
    "demo": [["-e", ".[local,examples]"]],
    # One call each: pip resolves the second with the first already there.
    "test": [["-e", ".[local,validate,examples]", "--group", "dev"]],
}


class SetUpFailed(Exception):
    """Said to the user without a traceback."""


def say(text):
    print("set-up: " + text, flush=True)


def run(arguments, **settings):
    try:
        subprocess.run([str(part) for part in arguments], check=True, cwd=str(ROOT), **settings)
    except subprocess.CalledProcessError as error:
        command = " ".join(str(part) for part in arguments)
        raise SetUpFailed(f"exit code {error.returncode} from: {command}") from error


def find_python():
    """This Python if it is new enough, else the newest good one on PATH."""
    if sys.version_info[:2] >= OLDEST:
        return sys.executable
    for minor in range(NEWEST_TRIED[1], OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    this = ".".join(str(part) for part in sys.version_info[:2])
    raise SetUpFailed(
        f"Python 3.10 or newer is needed; this is {this} and PATH has no newer one.\n"
        "  Install one, or name one: make demo PYTHON=/path/to/python3.11"
    )


def fingerprint(python):
    """Changes whenever the set-up has to be done again."""
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version, sys.base_prefix)"],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    digest = hashlib.sha256(version)
    for source in (ROOT / "pyproject.toml", Path(__file__)):
        digest.update(source.read_bytes())
    digest.update(str(ROOT).encode())  # a moved tree has a broken editable install
    return digest.hexdigest()


def read_stamp():
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def works(venv_python):
    return (
        venv_python.exists()
        and subprocess.run(
            [str(venv_python), "-c", "import sys; sys.exit(sys.version_info < (3, 10))"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        == 0
    )


def has_pip(venv_python):
    return (
        subprocess.run(
            [str(venv_python), "-m", "pip", "--version"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode
        == 0
    )


def make_venv(python):
    """A virtual environment with pip, also where the system's Python came without ensurepip."""
    venv_python = VENV / "bin" / "python"
    if VENV.exists() and not works(venv_python):
        if not (VENV / "pyvenv.cfg").exists():
            raise SetUpFailed(f"{VENV} is in the way: it is no virtual environment")
        say("the virtual environment no longer works: making it again")
        shutil.rmtree(VENV)
    if not VENV.exists():
        say("making a virtual environment in .venv")
        made = subprocess.run(
            [python, "-m", "venv", str(VENV)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if made.returncode != 0:
            shutil.rmtree(VENV, ignore_errors=True)
            say("this Python has no ensurepip (Debian: package python3-venv); trying without")
            try:
                run([python, "-m", "venv", "--without-pip", VENV])
            except SetUpFailed as error:
                raise SetUpFailed(
                    f"{python} cannot make virtual environments.\n"
                    "  On Debian and Ubuntu: sudo apt install python3-venv\n"
                    "  Or name another Python: make demo PYTHON=/path/to/python3.11"
                ) from error
    if not has_pip(venv_python):
        bring_pip(python, venv_python)
    return venv_python


def bring_pip(python, venv_python):
    """Install pip into a virtual environment that was made without it."""
    ways = (
        [python, "-m", "pip", "--python", venv_python, "install", "-q", PIP],
        ["uv", "pip", "install", "-q", "--python", venv_python, PIP],
        [python, Path(__file__).with_name("fetch_pip.py"), venv_python],
    )
    for way in ways:
        if shutil.which(str(way[0])) is None:
            continue
        done = subprocess.run(
            [str(part) for part in way],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode == 0 and has_pip(venv_python):
            return
    last_words = " ".join(done.stderr.decode(errors="replace").strip().splitlines()[-1:])
    raise SetUpFailed(
        f"no way to get pip into .venv ({last_words}).\n"
        "  On Debian and Ubuntu: sudo apt install python3-venv"
    )


def pip_install(venv_python, arguments):
    quiet = [] if sys.stdout.isatty() else ["-q"]
    run([venv_python, "-m", "pip", "install", "--disable-pip-version-check", *quiet, *arguments])


def set_up(kind, python):
    wanted = fingerprint(python)
    if read_stamp().get(kind) == wanted and works(VENV / "bin" / "python"):
        return
    started = time.monotonic()
    venv_python = make_venv(python)
    say(f"installing what `make {kind}` needs (the first time: a few hundred MB)")
    pip_install(venv_python, ["-q", PIP])
    for arguments in WHAT[kind]:
        pip_install(venv_python, arguments)
    stamp = read_stamp()
    stamp[kind] = wanted
    if kind == "test":
        stamp["demo"] = wanted  # has all that the demo needs
    with tempfile.NamedTemporaryFile("w", dir=str(VENV), delete=False) as draft:
        json.dump(stamp, draft)
    Path(draft.name).replace(STAMP)
    say(f"done in {time.monotonic() - started:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(WHAT))
    kind = parser.parse_args().kind
    try:
        # Two makes at once wait for each other; the lock goes with its process.
        with (ROOT / ".set-up.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            set_up(kind, find_python())
    except SetUpFailed as error:
        sys.exit("set-up: " + str(error))


if __name__ == "__main__":
    main()
