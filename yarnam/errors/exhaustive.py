"""``typing.assert_never`` for Python 3.10, which does not have it yet."""

from __future__ import annotations

from typing import NoReturn


def assert_never(value: NoReturn) -> NoReturn:
    """The type checker proves that this is never reached: a dropped case does not compile."""
    raise AssertionError(f"unhandled case: {value!r}")
