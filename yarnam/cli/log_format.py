"""The form of log records: of the command line, of the AM and of the agents."""

from __future__ import annotations

import logging
import warnings
from typing import TextIO

from yarnam.core.model.printable import printable_lines


class PrintableFormatter(logging.Formatter):
    """Messages and exceptions quote what others wrote. None of it acts on the terminal that shows
    the log, and no line of it looks like a record: the lines after a record's first are indented.
    """

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def log_to_stderr(formatter: PrintableFormatter, level: int | str) -> None:
    """All records of this level and above go to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler])


def make_last_resort_printable() -> None:
    """Without ``-v``, Python itself prints records of warnings, and ``warnings``, to stderr."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(PrintableFormatter())
    warnings.showwarning = _log_warning


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    # logging.captureWarnings would drop them where nobody has set up logging.
    text = warnings.formatwarning(message, category, filename, lineno, line)
    logging.getLogger("py.warnings").warning("%s", text.rstrip())
