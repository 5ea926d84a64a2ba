"""The program of a function's job: the entry of the archive that ``call_package`` makes.

It is shipped alone, and runs in the Python of the function: the standard library only. The call is
a pickle of cloudpickle, which lies beside it in the archive. The function's result or exception
goes to ``$YARNAM_RESULTS/<rank>``: one line of JSON, then the pickle. HDFS's client is that of the
agent, in a process of its own, so that nothing of it gets into the function's.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
import zipfile

CALL = "call.pickle"
FACTS = "call.json"

STORE_LIMIT_S = 600.0
"""The time for the result's way to HDFS."""

STORE = """
import os, sys
sys.path[:0] = [part for part in sys.argv[3:] if part]
from hdfs_utils import connect
target, source = sys.argv[1:3]
files = connect(target)
parent = target.rpartition("/")[0]
files.mkdirs(parent, 0o700)
def write(writer):
    with open(source, "rb") as stream:
        while chunk := stream.read(4 << 20):
            writer.write(chunk)
files.write_atomic(target, write)
"""


def main() -> int:
    """Returns the process's exit code: 1 where the function has raised."""
    archive = os.path.abspath(sys.argv[0])  # noqa: PTH100
    with zipfile.ZipFile(archive) as content:
        facts = json.loads(content.read(FACTS))
        call = content.read(CALL)
    try:
        _check_python(facts["python"])
        function, args, kwargs = pickle.loads(call)  # noqa: S301 - the user's own, shipped by them
        payload = _pickled(function(*args, **kwargs))
        header: dict[str, object] = {"ok": True}
    except BaseException as error:  # noqa: BLE001 - who called the function gets it
        text = traceback.format_exc()
        sys.stderr.write(text)
        header, payload = _failure(error, text), _pickled_error(error)
    _store(header, payload, int(facts["max_bytes"]))
    return 0 if header["ok"] else 1


def _check_python(wanted: str) -> None:
    here = ".".join(map(str, sys.version_info[:2]))
    if here != wanted:
        raise RuntimeError(
            f"the function comes from Python {wanted}, and this is {here}: choose that version in "
            "the spec's `environment`"
        )


def _failure(error: BaseException, text: str) -> dict[str, object]:
    return {
        "ok": False,
        "type": type(error).__qualname__,
        "text": str(error)[:10_000],
        "traceback": text[-100_000:],
    }


def _pickled(value: object) -> bytes:
    import cloudpickle  # The archive carries it.

    return bytes(cloudpickle.dumps(value))


def _pickled_error(error: BaseException) -> bytes:
    """Empty where it cannot be pickled, or not be made again."""
    try:
        data = _pickled(error)
        pickle.loads(data)  # noqa: S301
    except Exception:  # noqa: BLE001 - its text and traceback go in any case
        return b""
    return data


def _store(header: dict[str, object], payload: bytes, max_bytes: int) -> None:
    if len(payload) > max_bytes:
        text = f"the result has {len(payload)} bytes; a job may return {max_bytes}"
        header.update({"ok": False, "type": "ValueError", "text": text, "traceback": text})
        payload = b""
    target = f"{os.environ['YARNAM_RESULTS']}/{os.environ.get('YARNAM_RANK', '0')}"
    # The container's directory: the agent has its stop file there.
    container = os.path.dirname(os.environ.get("YARNAM_STOP_FILE", ""))  # noqa: PTH120
    library = os.path.join(container, "yarnam-runtime", "lib") if container else ""  # noqa: PTH118
    # The node's /tmp may be full of the files of others.
    with tempfile.NamedTemporaryFile(prefix="yarnam-result-", dir=container or None) as local:
        local.write(json.dumps(header).encode() + b"\n" + payload)
        local.flush()
        command = [sys.executable, "-c", STORE, target, local.name, library]
        environ = dict(os.environ)
        if library:
            environ.pop("PYTHONPATH", None)
        done = subprocess.run(command, env=environ, timeout=STORE_LIMIT_S, check=False)
    if done.returncode:
        raise SystemExit(f"the result could not be written to {target}")
    if not header["ok"] and not payload:
        sys.stderr.write(f"{header['text']}\n")


if __name__ == "__main__":
    sys.exit(main())
