"""Templates to HTML. Every value in a template is text of others until it is escaped: Jinja does
that, and what is not visible is shown as an escape (``yarnam.core.model.printable``)."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from datetime import datetime, timezone
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from yarnam.core.model.job_status import byte_words
from yarnam.core.model.printable import duration, printable

_FOLDER = Path(__file__).parent / "templates"


def html(template: str, **values: Any) -> bytes:
    """A whole page. ``style`` and ``script`` are the installation's own files."""
    page = _environment().get_template(template)
    text = page.render(style=Markup(_own("page.css")), script=Markup(_own("page.js")), **values)  # noqa: S704
    return _TABLE.sub(_with_labels, text).encode("utf-8", "backslashreplace")


# Text of others has no tags of its own: it is escaped.
_TABLE = re.compile(r"<thead>.*?</tbody>", re.DOTALL)
_HEADING = re.compile(r'<th scope="col"[^>]*>(.*?)</th>')
_CELL = re.compile(r'<t(?:d|h scope="row")(?! colspan)')
_ROW = re.compile(r"(?=<tr\b)")


def _with_labels(table: re.Match[str]) -> str:
    """Each cell names its column: on a phone a row stands in lines, without the headings. A cell
    below its row names itself."""
    headings = _HEADING.findall(table[0])
    head, body = table[0].split("<tbody>", 1)
    rows = []
    for row in _ROW.split(body):
        column = itertools.count()
        rows.append(
            _CELL.sub(lambda cell: f'{cell[0]} data-column="{headings[next(column)]}"', row)  # noqa: B023
        )
    return f"{head}<tbody>{''.join(rows)}"


@cache
def content_security_policy() -> str:
    """Nothing but the style and the script that the pages carry, known by their digests; the script
    reloads the page, and forms go to where they came from."""
    return (
        f"default-src 'none'; style-src {_digest('page.css')}; script-src {_digest('page.js')}; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def _digest(name: str) -> str:
    digest = hashlib.sha256(_own(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _own(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(duration=duration, bytes=byte_words, number=number, time=_time)
    return made


def _shown(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value, keep="\n\t")
    return value


def number(value: float) -> str:
    """Show a number as in ``0.0123``, ``12,400``, ``nan``."""
    if not isfinite(value):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"


def _time(at_s: float) -> Markup:
    """In UTC; the page's script shows it in the reader's own time."""
    try:
        when = datetime.fromtimestamp(at_s, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return Markup("-")
    return Markup('<time datetime="{}">{}</time>').format(
        when.strftime("%Y-%m-%dT%H:%M:%SZ"), when.strftime("%Y-%m-%d %H:%M:%S UTC")
    )
