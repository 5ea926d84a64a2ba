"""Whatever a file does to its check: it ends as a finding, within its limits of memory and time."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hdfs_utils.validation import FORMATS, CheckOptions, Findings, Reason, Verdict, check_file
from hdfs_utils.validation.findings import MAX_FINDINGS, MAX_MESSAGE, FindingKind
from hdfs_utils.validation.registry import Checks, format_of
from hdfs_utils.validation.sandbox.decoder_pool import DecoderPool, Limits
from hdfs_utils.validation.sources import Stream
from tests.fakes.files import MemoryFiles
from tests.unit.hdfs_utils.validation.malicious_samples import SAMPLES, Sample

LIMITS = Limits(memory=384 << 20, time_s=240.0)
"""None of the files takes 5 s of a core; on a busy machine these are minutes."""
SHORT = replace(LIMITS, time_s=3.0)
PARENT_MEMORY = 32 << 20


@pytest.fixture(scope="module")
def pools() -> Iterator[dict[bool, DecoderPool]]:
    """By ``is_endless``."""
    made = {False: DecoderPool(limits=LIMITS), True: DecoderPool(limits=SHORT)}
    yield made
    for pool in made.values():
        pool.close()


def test_there_is_a_sample_of_each_format() -> None:
    assert {sample.kind for sample in SAMPLES} == set(FORMATS)
    for sample in SAMPLES:
        assert sample.kind in format_of(sample.name, b"", Checks()).split("+")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_it_ends_in_a_finding_within_its_limits(
    sample: Sample, pools: dict[bool, DecoderPool]
) -> None:
    pool = pools[sample.is_endless]
    fs = MemoryFiles()
    data = sample.make()
    assert len(data) < 32 << 20, "small files do it"
    fs.write_bytes(f"/{sample.name}", data)
    status = fs.stat(f"/{sample.name}")
    tracemalloc.start()
    start_s = time.monotonic()
    report = check_file(fs, status, CheckOptions(decoders=pool))
    took_s = time.monotonic() - start_s
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.verdict is not Verdict.CLEAN
    reasons = {f.reason for f in report.findings if f.kind is not FindingKind.NOTE}
    assert reasons & set(sample.ends), report.findings
    assert Reason.CHECK_FAILED not in reasons, report.findings
    assert took_s < pool.limits.of(len(data)) + 5
    assert peak < PARENT_MEMORY


@pytest.mark.parametrize("size", [-1, -512])
def test_a_stream_never_steps_back(size: int) -> None:
    stream = Stream(iter([b"abc", b"def"]))
    stream.read(2)
    for take in (stream.read, stream.skip):
        with pytest.raises(ValueError, match="a size of -"):
            take(size)
    assert stream.read(4) == b"cdef"


def test_findings_are_few_and_short_whatever_the_file_holds() -> None:
    found = Findings()
    for number in range(3 * MAX_FINDINGS):
        with found.within("x" * 10_000):
            found.note(Reason.UNPROTECTED, f"{number} {'y' * 10_000}")
            found.not_checked(Reason.NOT_SUPPORTED, f"{number}")
    assert len(found.found) == 2 * MAX_FINDINGS
    assert all(len(f.message) <= MAX_MESSAGE and len(f.member) <= MAX_MESSAGE for f in found.found)
