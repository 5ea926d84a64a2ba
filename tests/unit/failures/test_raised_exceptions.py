"""Exceptions that are really raised, with the traceback that Python prints, and their classes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import subprocess
import tarfile
import traceback
import wave
import zipfile
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest

from hdfs_utils import errors
from yarnam.core.failures.evidence_zones import ProcessEvidence
from yarnam.core.failures.process_failure import process_finding
from yarnam.core.failures.shipped_rules import SHIPPED_RULES
from yarnam.core.model.outcomes import FailureClass as C
from yarnam.core.model.outcomes import Finding

NOISE = b"nothing that any of them has written"


def finding(do: Callable[[], object]) -> Finding:
    try:
        do()
    except Exception:
        lines = tuple(traceback.format_exc().splitlines())
        return process_finding(ProcessEvidence(1, 0, lines), SHIPPED_RULES)
    raise AssertionError("nothing was raised")


# ruff: noqa: SIM115
DECODERS: list[Callable[[], object]] = [
    lambda: gzip.decompress(NOISE),
    lambda: gzip.decompress(gzip.compress(NOISE)[:-3]),
    lambda: bz2.open(io.BytesIO(NOISE)).read(),
    lambda: lzma.open(io.BytesIO(NOISE)).read(),
    lambda: zipfile.ZipFile(io.BytesIO(NOISE)),
    lambda: tarfile.open(fileobj=io.BytesIO(NOISE)),
    lambda: json.loads(NOISE),
    lambda: pickle.loads(NOISE),
    lambda: wave.open(io.BytesIO(NOISE)),
    lambda: ET.fromstring(NOISE),
    lambda: b"\xff".decode(),
]


@pytest.mark.parametrize("do", DECODERS)
def test_what_a_decoder_raises_is_about_the_input(do: Callable[[], object]) -> None:
    assert finding(do).failure is C.INCORRECT_INPUTS


def test_but_not_when_it_was_called_with_the_wrong_type() -> None:
    assert finding(lambda: json.loads(None)).failure is C.SEMANTIC_ERROR  # type: ignore[arg-type]


def test_a_program_that_python_does_not_find_is_no_input() -> None:
    found = finding(lambda: subprocess.run(["no-such-program-at-all"]))
    assert found.failure is C.COMMAND_NOT_FOUND


ERRORS = {
    errors.HdfsError: C.TRACEBACK,
    errors.NotFound: C.INCORRECT_INPUTS,
    errors.AlreadyExists: C.OUTPUT_ERROR,
    errors.PermissionDenied: C.PERMISSION_ERROR,
    errors.NotAuthenticated: C.PERMISSION_ERROR,
    errors.NoCredentials: C.PERMISSION_ERROR,
    errors.NotADirectory: C.INCORRECT_INPUTS,
    errors.IsADirectory: C.INCORRECT_INPUTS,
    errors.DirectoryNotEmpty: C.OUTPUT_ERROR,
    errors.InvalidPath: C.INCORRECT_INPUTS,
    errors.QuotaExceeded: C.DISK_FULL,
    errors.Unavailable: C.CHECKPOINT_ERROR,
    errors.SafeMode: C.CHECKPOINT_ERROR,
    errors.Starting: C.CHECKPOINT_ERROR,
    errors.LeaseConflict: C.CHECKPOINT_ERROR,
    errors.LeaseLost: C.CHECKPOINT_ERROR,
    errors.Fenced: C.PEER_LOST,
    errors.FencedByAnother: C.CHECKPOINT_TAKEN,
    errors.CorruptData: C.INCORRECT_INPUTS,
    errors.MalformedData: C.INCORRECT_INPUTS,
    errors.NotSupported: C.SEMANTIC_ERROR,
    errors.BadConfig: C.SEMANTIC_ERROR,
}


def test_each_error_of_hdfs_utils_has_its_class() -> None:
    every = {
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.HdfsError)
    }
    assert every == set(ERRORS)
    seen = {}
    for error in every:

        def fail(error: type[errors.HdfsError] = error) -> None:
            raise error("because", path="/data/x")

        seen[error] = finding(fail).failure
    assert seen == ERRORS
