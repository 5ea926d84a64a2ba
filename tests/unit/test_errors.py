"""The exit codes: unique, in their ranges, documented, and drawn at the top of the module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import yarnam.errors as errors
from yarnam.errors import Blame, ExitCode, YarnamError, error_classes

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "exit-codes.md"

SYSEXITS = {64: "USAGE", 65: "DATAERR", 69: "UNAVAILABLE", 70: "SOFTWARE", 73: "CANTCREAT",
            75: "TEMPFAIL", 76: "PROTOCOL", 77: "NOPERM", 78: "CONFIG"}  # fmt: skip
"""The codes of sysexits.h that yarnam uses, by their names there."""

SKEINS = {10, 11, 12}
SHELLS = range(126, 256)


def test_every_code_belongs_to_exactly_one_class() -> None:
    codes = [kind.exit_code for kind in error_classes()]
    assert len(codes) == len(set(codes))
    assert set(codes) == set(ExitCode) - {ExitCode.OK}


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_codes_cannot_be_mistaken_for_somebody_elses(kind: type[YarnamError]) -> None:
    code = int(kind.exit_code)
    assert code not in SKEINS
    assert code not in SHELLS
    assert code in SYSEXITS or 90 <= code <= 99


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_every_class_says_what_it_is(kind: type[YarnamError]) -> None:
    assert kind.__doc__
    assert kind.__doc__ != YarnamError.__doc__
    assert isinstance(kind.blame, Blame)
    error = kind("the thing failed", hint="do that")
    assert str(error) == "the thing failed\n  do that"


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_the_tree_in_the_docstring_is_the_tree_in_the_code(kind: type[YarnamError]) -> None:
    line = next(
        line for line in (errors.__doc__ or "").splitlines() if f" {kind.__name__} " in line
    )
    found = re.search(r"(\d+) +(user|infra|platform)", line)
    assert found is not None, line
    assert int(found[1]) == kind.exit_code
    assert found[2] == kind.blame.value
    assert ("(retryable)" in line) == kind.retryable


@pytest.mark.parametrize("code", ExitCode, ids=lambda code: code.name)
def test_every_code_is_documented(code: ExitCode) -> None:
    assert re.search(rf"^\| {int(code)} \| `{code.name}` \|", PAGE.read_text(), re.MULTILINE)


def test_only_the_infrastructure_is_worth_a_retry() -> None:
    for kind in error_classes():
        if kind.retryable:
            assert kind.blame is Blame.INFRA
