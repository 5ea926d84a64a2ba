"""A function and its arguments as one file that a container's Python can run."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from yarnam.client.functions import call_program
from yarnam.errors import BadConfig, BadSpec

CALL_FILE = "yarnam-call.pyz"

MAX_CALL_BYTES = 256 << 20
"""The most bytes of a pickled call: a larger one carries data, and data belongs on HDFS."""

MAX_RESULT_BYTES = 1 << 30
"""The most bytes of one process's result: it is read as a whole."""


def pack_call(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bytes:
    """A zip archive that Python runs: the program, cloudpickle, and the call. Raises BadConfig
    without cloudpickle, BadSpec for what cannot be pickled."""
    cloudpickle = require_cloudpickle()
    try:
        call = cloudpickle.dumps((function, tuple(args), dict(kwargs)))
    except Exception as error:  # cloudpickle passes on whatever an object's own code raises.
        raise BadSpec(f"{name_of(function)} cannot be pickled: {error}") from error
    if len(call) > MAX_CALL_BYTES:
        raise BadSpec(
            f"{name_of(function)} and its arguments have {len(call)} bytes, more than"
            f" {MAX_CALL_BYTES}",
            hint="Put the data on HDFS, and hand over its path.",
        )
    major, minor = sys.version_info[:2]
    facts = {"python": f"{major}.{minor}", "max_bytes": MAX_RESULT_BYTES}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(Path(call_program.__file__), "__main__.py")
        folder = Path(str(cloudpickle.__file__)).parent
        for path in sorted(folder.rglob("*.py")):
            archive.write(path, f"cloudpickle/{path.relative_to(folder)}")
        archive.writestr(call_program.FACTS, json.dumps(facts))
        archive.writestr(call_program.CALL, call)
    return buffer.getvalue()


def require_cloudpickle() -> ModuleType:
    """Raises BadConfig."""
    try:
        import cloudpickle
    except ImportError:
        raise BadConfig(
            "functions as jobs need cloudpickle", hint="pip install 'yarnam[functions]'"
        ) from None
    module: ModuleType = cloudpickle
    return module


def name_of(function: Callable[..., Any]) -> str:
    """A name for people: for a partial or an object that of its class."""
    return str(getattr(function, "__name__", type(function).__name__))
