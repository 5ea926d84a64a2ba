"""What a submit makes of inputs that are known to be corrupt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils.blacklist import Entry, FileBlacklist, Key, State, quarantined, version_of
from hdfs_utils.errors import PermissionDenied
from tests.unit.client.world import World, job_spec
from tests.unit.hdfs_utils.blacklist.makers import claim
from tests.unit.hdfs_utils.validation.samples import make
from yarnam.client.submit.preflight import check_job
from yarnam.core.model.job_spec import DataInput, OnCorrupt, VerifyInput
from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_text

SKIP = DataInput("set", "hdfs:///data/set", OnCorrupt.SKIP, 0.05)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for number in range(40):
        made.files.write_bytes(f"/data/set/{number % 4}/{number:02}.jsonl", make("a.jsonl", number))
    return made


@pytest.fixture(autouse=True)
def _open_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YARNAM_OPEN_BLACKLIST", "/tmp/open-blacklist")


def say_corrupt(world: World, *paths: str, state: State = State.PROVED, at: str = "") -> None:
    claims = frozenset([claim(state)])
    keys = [Key(path, version_of(world.files.stat(path))) for path in paths]
    FileBlacklist(world.files).add([Entry(key, claims) for key in keys], at or None)


BAD = "/data/set/1/01.jsonl"


def test_nothing_known_nothing_changed(world: World) -> None:
    checked = check_job(world.site, job_spec(inputs=(SKIP,)))
    (given,) = checked.job.inputs
    # Counted, so that the AM need not list the input again.
    assert given.files
    assert given.length
    assert replace(given, files=0, length=0) == SKIP
    assert checked.inputs[0].warnings == ()


def test_fail_is_the_default_and_refuses_with_the_list(world: World) -> None:
    say_corrupt(world, BAD)
    given = DataInput("set", "hdfs:///data/set")
    with pytest.raises(BadSpec) as caught:
        check_job(world.site, job_spec(inputs=(given,)))
    assert f"input 'set': 1 file is known to be corrupt: {BAD} (bad-crc: seen)" in str(caught.value)
    assert "yarnam blacklist" in caught.value.hint


def test_skip_names_what_is_left_out_to_the_job(world: World) -> None:
    say_corrupt(world, BAD)
    checked = check_job(world.site, job_spec(inputs=(SKIP,)))
    (given,) = checked.job.inputs
    assert given.skipped == ("1/01.jsonl",)
    assert 0.02 < given.skipped_share < 0.04
    assert "1 file is excluded" in checked.inputs[0].warnings[0]


def test_a_place_further_below_is_found_too(world: World) -> None:
    say_corrupt(world, BAD, at="/data/set/1")
    assert check_job(world.site, job_spec(inputs=(SKIP,))).job.inputs[0].skipped == ("1/01.jsonl",)


def test_too_much_refuses(world: World) -> None:
    for number in (1, 5, 9):
        say_corrupt(world, f"/data/set/1/{number:02}.jsonl")
    with pytest.raises(BadSpec, match=r"more than max_skipped 5\.000%"):
        check_job(world.site, job_spec(inputs=(SKIP,)))


def test_a_mended_file_is_taken_back(world: World) -> None:
    say_corrupt(world, BAD)
    world.files.write_bytes(BAD, make("a.jsonl", 99), overwrite=True)
    assert check_job(world.site, job_spec(inputs=(SKIP,))).job.inputs[0].skipped == ()


def test_an_input_that_is_one_file(world: World) -> None:
    say_corrupt(world, BAD)
    one = DataInput("one", f"hdfs://memory{BAD}")
    with pytest.raises(BadSpec, match="known to be corrupt"):
        check_job(world.site, job_spec(inputs=(one,)))


def test_what_others_say_is_a_warning(world: World) -> None:
    def fail(operation: str, path: str) -> None:
        if path.startswith("/data") and operation in ("mkdirs", "create"):
            raise PermissionDenied("not yours", path=path)

    world.files.fail = fail
    say_corrupt(world, BAD)
    checked = check_job(world.site, job_spec(inputs=(SKIP,)))
    assert checked.job.inputs[0].skipped == ()
    assert "who may not write there" in checked.inputs[0].warnings[0]


def test_verify_full_reads_now_and_a_second_job_does_not_read_again(world: World) -> None:
    world.files.write_bytes(BAD, b'{"a": 1}\n{"half', overwrite=True)
    full = replace(SKIP, verify=VerifyInput.FULL)
    world.client.submit(job_spec(inputs=(full,)))
    opened: list[str] = []

    def watch(operation: str, path: str) -> None:
        if operation == "open" and path.endswith(".jsonl"):
            opened.append(path)

    world.files.fail = watch
    checked = check_job(world.site, job_spec(inputs=(SKIP,)))
    assert checked.job.inputs[0].skipped == ("1/01.jsonl",)
    assert opened == []


def test_what_a_refused_job_has_proved_is_not_proved_again(world: World) -> None:
    world.files.write_bytes(BAD, b'{"a": 1}\n{"half', overwrite=True)
    full = replace(SKIP, on_corrupt=OnCorrupt.FAIL, verify=VerifyInput.FULL)
    with pytest.raises(BadSpec, match="nothing was recorded; a submit records it"):
        check_job(world.site, job_spec(inputs=(full,)))
    with pytest.raises(BadSpec, match="1 file is on the input blacklist from now on"):
        world.client.submit(job_spec(inputs=(full,)))
    off = replace(full, verify=VerifyInput.OFF)
    with pytest.raises(BadSpec, match=r"1/01\.jsonl"):
        check_job(world.site, job_spec(inputs=(off,)))


def test_verify_sample_reads_a_few(world: World) -> None:
    opened: set[str] = set()

    def watch(operation: str, path: str) -> None:
        if operation == "open":
            opened.add(path)

    world.files.fail = watch
    sample = replace(SKIP, verify=VerifyInput.SAMPLE)
    check_job(world.site, job_spec(inputs=(sample,)))
    assert len(opened) == 20


def test_verify_says_what_it_could_not_check(world: World) -> None:
    world.files.write_bytes("/data/set/strange", b"??")
    full = replace(SKIP, verify=VerifyInput.FULL)
    checked = check_job(world.site, job_spec(inputs=(full,)))
    assert (
        "1 files could not be checked; /data/set/strange: its format"
        in (checked.inputs[0].warnings[0])
    )


def test_quarantine_moves_at_submit_and_not_before(world: World) -> None:
    say_corrupt(world, BAD)
    away = replace(SKIP, on_corrupt=OnCorrupt.QUARANTINE)
    check_job(world.site, job_spec(inputs=(away,)))
    assert world.files.exists(BAD), "a dry run moves nothing"
    world.client.submit(job_spec(inputs=(away,)))
    assert not world.files.exists(BAD)
    (moved,) = quarantined(world.files, ["/data/set/1"])
    assert (moved.origin, moved.reason) == (BAD, "bad-crc")


def test_a_quarantine_that_is_refused_stops_no_job(world: World) -> None:
    say_corrupt(world, BAD)

    def fail(operation: str, path: str) -> None:
        if operation == "rename" and path == BAD:
            raise PermissionDenied("not yours", path=path)

    world.files.fail = fail
    said: list[str] = []
    world.client._report = said.append
    world.client.submit(job_spec(inputs=(replace(SKIP, on_corrupt=OnCorrupt.QUARANTINE),)))
    assert any("not moved to quarantine" in line for line in said)


@pytest.mark.parametrize("count", [95, 101])
def test_names_too_long_for_a_variable_refuse(world: World, count: int) -> None:
    paths = [f"/data/set/{'d' * 250}/{'e' * 250}/{'f' * 250}/{n:0240}.jsonl" for n in range(count)]
    for path in paths:  # 1000 bytes each, and a variable holds 100,000 of them
        world.files.write_bytes(path, b"{}\n")
    say_corrupt(world, *paths)
    spec = job_spec(inputs=(replace(SKIP, max_skipped=1.0),))
    if count < 100:
        assert len(check_job(world.site, spec).job.inputs[0].skipped) == count
    else:
        with pytest.raises(BadSpec, match="101 files would be excluded, more than can be passed"):
            check_job(world.site, spec)


def test_the_keys_of_the_spec(world: World) -> None:
    say_corrupt(world, BAD)
    text = (
        "version: 1\nname: x\nqueue: root.dl\ncommand: [python3]\ngpus: 2\n"
        "data: {inputs: [{path: /data/set, on_corrupt: skip, max_skipped: 2.6 %, verify: off}]}\n"
    )
    job = parse_spec_text(text, user="me")
    assert job.inputs[0].max_skipped == pytest.approx(0.026)
    assert check_job(world.site, job).job.inputs[0].skipped == ("1/01.jsonl",)
