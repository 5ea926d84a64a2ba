"""Writes an internal error to a file that can be attached to a bug report."""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from yarnam._version import __version__
from yarnam.core.model.printable import printable
from yarnam.errors import InternalError


def internal_error(error: BaseException, arguments: Sequence[str]) -> InternalError:
    """Write the report and name its file in the hint, if it could be written."""
    what = f"{type(error).__name__}: {error}"
    try:
        path = _write_report(error, arguments)
    except OSError:
        return InternalError(f"internal error: {what}")
    return InternalError(
        f"internal error: {what}", hint=f"Please report this bug and attach {path}."
    )


def _write_report(error: BaseException, arguments: Sequence[str]) -> Path:
    base = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    folder = base / "yarnam" / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    lines = [
        f"yarnam {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: yarnam {' '.join(_without_values(arguments))}",
        "",
        *traceback.format_exception(error),
    ]
    path.write_text(printable("\n".join(lines), keep="\n\t"), encoding="utf-8")
    path.chmod(0o600)
    return path


def _without_values(arguments: Sequence[str]) -> list[str]:
    """The arguments without values after ``=``, which may be secrets."""
    return [text.split("=", 1)[0] + "=…" if "=" in text else text for text in arguments]
