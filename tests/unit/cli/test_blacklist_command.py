"""``yarnam blacklist`` and ``yarnam data verify`` over a client on fakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hdfs_utils.errors import PermissionDenied, Unavailable
from tests.unit.client.world import World
from tests.unit.hdfs_utils.validation.samples import make
from yarnam.cli.shell import Shell, run

Call = Callable[..., tuple[int, str, str]]

GOOD, BAD, ODD = "/data/set/good.jsonl", "/data/set/bad.jsonl", "/data/set/odd.xyz"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("YARNAM_OPEN_BLACKLIST", "/tmp/open-blacklist")
    made = World(tmp_path)
    made.files.write_bytes(GOOD, make("a.jsonl", 1))
    made.files.write_bytes(BAD, b'{"a": 1}\n{"a"\n')
    return made


@pytest.fixture
def call(world: World, capsys: pytest.CaptureFixture[str]) -> Call:
    def run_it(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments, Shell(lambda **_: world.client))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run_it


def forbid_writing(world: World) -> None:
    def fail(operation: str, path: str) -> None:
        if path.startswith("/data") and operation in ("mkdirs", "create"):
            raise PermissionDenied("not yours", path=path)

    world.files.fail = fail


# ---- data verify -------------------------------------------------------------------------------


def test_verify_names_what_is_corrupt_and_where(call: Call) -> None:
    code, out, err = call("data", "verify", "/data/set")
    assert code == 65
    assert out.splitlines()[1].split()[:2] == ["corrupt", "bad-data"]
    assert "record 1, byte 9" in out
    assert BAD in out
    assert GOOD not in out
    assert "2 files" in err
    assert "1 clean, 1 corrupt, 0 not checked" in err


def test_verify_of_clean_files(call: Call) -> None:
    code, out, err = call("data", "verify", GOOD)
    assert (code, out) == (0, "")
    assert "1 clean" in err
    code, out, _ = call("data", "verify", GOOD, "--verbose")
    assert "jsonl" in out


def test_a_file_that_is_not_checked_is_not_clean(world: World, call: Call) -> None:
    world.files.write_bytes(ODD, b"??")
    code, out, _ = call("data", "verify", ODD)
    assert code == 69
    assert "not checked" in out
    code, out, _ = call("data", "verify", ODD, "--json")
    told = json.loads(out)
    assert code == 69
    assert (told["not_checked"], told["clean"]) == (1, 0)
    assert told["findings"][0]["reason"] == "unknown-format"


def test_verify_rules_of_text(world: World, call: Call) -> None:
    world.files.write_bytes("/data/t.csv", b"id,x\n1,2\n")
    assert call("data", "verify", "/data/t.csv", "--schema", "id:integer")[0] == 0
    assert call("data", "verify", "/data/t.csv", "--columns", "3")[0] == 65
    for wrong in (["--schema", "id"], ["--schema", "id:x"], ["--encoding", "no-such"],
                  ["--check", "x"], ["--check", ".x=no.such:f"]):  # fmt: skip
        assert call("data", "verify", "/data/t.csv", *wrong)[0] == 64


def test_verify_with_a_check_of_ones_own(world: World, call: Call) -> None:
    world.files.write_bytes("/data/a.sensor", b"2\n1\n")
    check = ".sensor=tests.unit.hdfs_utils.validation.test_engine:sensor_check"
    code, out, _ = call("data", "verify", "/data/a.sensor", "--check", check)
    assert code == 65
    assert "user-check" in out


def test_verify_of_this_machine_needs_no_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n")
    report = tmp_path / "report.parquet"

    def no_cluster(**_: object) -> World:
        raise AssertionError("asked for a cluster")

    arguments = ["data", "verify", f"file://{tmp_path}", "--report", str(report)]
    assert run(arguments, Shell(no_cluster)) == 0  # type: ignore[arg-type]
    assert "1 clean" in capsys.readouterr().err
    assert report.read_bytes()[:4] == b"PAR1"


def test_verify_of_a_part(world: World, call: Call) -> None:
    for number in range(60):
        world.files.write_bytes(f"/data/many/{number}.txt", b"x\n")
    _, out, _ = call("data", "verify", "/data/many", "--sample", "0.5", "--json")
    assert (json.loads(out)["files"], json.loads(out)["not_sampled"]) == (30, 30)


def test_verify_of_nothing(call: Call) -> None:
    assert call("data", "verify", "/nowhere")[0] == 64
    assert call("data", "verify", "relative")[0] == 64


# ---- blacklist ---------------------------------------------------------------------------------


def test_from_verify_to_the_list_and_back(world: World, call: Call) -> None:
    code, _, err = call("data", "verify", "/data/set", "--add")
    assert code == 65
    assert "Added 1 files to the input blacklist" in err
    _, out, _ = call("blacklist", "ls", "/data")
    assert out.splitlines()[1].split()[:4] == ["proved", "same", "bad-data", "me"]
    _, out, _ = call("blacklist", "show", BAD)
    assert "not JSON" in out
    assert "(record 1, byte 9)" in out
    assert call("blacklist", "check", "/data/set")[0] == 65
    code, out, _ = call("blacklist", "clear", BAD)
    assert (code, out) == (0, f"cleared: {BAD}\n")
    _, out, err = call("blacklist", "ls", "/data")
    assert out == ""
    assert "1 cleared or outdated (see --all)" in err
    _, out, _ = call("blacklist", "ls", "/data", "--all", "--json")
    assert json.loads(out)[0]["state"] == "cleared"


def test_a_suspicion_is_cleared_or_proved_by_a_check(call: Call) -> None:
    for path in (GOOD, BAD):
        code, out, _ = call("blacklist", "add", path, "--evidence", "NaN")
        assert (code, out) == (0, f"suspected: {path}\n")
    code, out, _ = call("blacklist", "check", "/data")
    assert code == 65
    assert out.splitlines() == [f"proved: {BAD}", f"cleared: {GOOD}"]
    assert call("blacklist", "check", GOOD)[0] == 0


def test_a_file_that_is_written_again_is_off_the_list(world: World, call: Call) -> None:
    call("data", "verify", "/data/set", "--add")
    world.files.write_bytes(BAD, make("a.jsonl", 2), overwrite=True)
    _, out, _ = call("blacklist", "ls", "/data", "--json")
    assert json.loads(out) == []
    _, out, _ = call("blacklist", "ls", "/data", "--json", "--all")
    assert json.loads(out)[0]["file"] == "rewritten"
    assert call("blacklist", "check", "/data")[0] == 0


def test_who_may_not_write_is_told_that_it_only_warns(world: World, call: Call) -> None:
    forbid_writing(world)
    _, _, err = call("data", "verify", "/data/set", "--add")
    assert "only warn" in err
    _, _, err = call("blacklist", "add", GOOD)
    assert "only warns" in err
    _, out, err = call("blacklist", "ls", "/data")
    assert out.count("suspected?") == 2
    assert "without write access" in err


def test_clearing_without_the_right_says_that_it_does_nothing(world: World, call: Call) -> None:
    call("data", "verify", "/data/set", "--add")
    forbid_writing(world)
    _, _, err = call("blacklist", "clear", BAD)
    assert "of its owners remain" in err
    _, out, _ = call("blacklist", "ls", "/data")
    assert out.splitlines()[1].startswith("proved ")


def test_quarantined_files_come_back(world: World, call: Call) -> None:
    from hdfs_utils.blacklist import quarantine

    quarantine(world.files, world.files.stat(BAD), reason="bad-data", by="me", at_s=1.0)
    _, out, _ = call("blacklist", "show", BAD)
    assert f"quarantined at {BAD.replace('bad', '.yarnam-quarantine/bad')}" in out
    code, out, _ = call("blacklist", "clear", "--restore", "/data/set")
    assert (code, out) == (0, f"restored: {BAD}\n")
    assert world.files.exists(BAD)


def test_one_file_that_cannot_go_back_keeps_no_other_away(world: World, call: Call) -> None:
    from hdfs_utils.blacklist import quarantine

    for path in (BAD, GOOD):
        quarantine(world.files, world.files.stat(path), reason="bad-data", by="me", at_s=1.0)
    place = "/data/set/.yarnam-quarantine/planted.0123456789ab"
    world.files.write_bytes(place, b"")
    world.files.write_bytes(f"{place}.origin.json", b"[" * 3000)

    def fail(operation: str, path: str) -> None:
        if operation == "rename" and "/bad." in path:
            raise PermissionDenied("not yours", path=path)

    world.files.fail = fail
    code, out, err = call("blacklist", "clear", "--restore", "/data/set")
    assert code == 0
    assert out == f"restored: {GOOD}\nrestored: /data/set/planted\n"
    assert "not yours" in err


def test_export_is_json_lines(world: World, call: Call, tmp_path: Path) -> None:
    call("data", "verify", "/data/set", "--add")
    _, out, _ = call("blacklist", "export", "/data")
    assert [json.loads(line)["path"] for line in out.splitlines()] == [BAD]
    assert call("blacklist", "export", "/data", "--output", str(tmp_path / "x.jsonl"))[0] == 0
    assert (tmp_path / "x.jsonl").read_text() == out
    assert call("blacklist", "export", "/data", "--output", "/nowhere/x")[0] == 64


def test_wrong_words(world: World, call: Call) -> None:
    assert call("blacklist", "add", "/nowhere")[0] == 64
    assert call("blacklist", "add", "/data")[0] == 64
    assert call("blacklist", "ls", "not/absolute")[0] == 64
    _, _, err = call("blacklist", "ls")
    assert "0 entries at or below hdfs://memory/user/me" in err
    _, _, err = call("blacklist", "show", GOOD)
    assert "No entries" in err

    def away(operation: str, path: str) -> None:
        raise Unavailable("no answer", path=path)

    world.files.fail = away
    assert call("blacklist", "ls", "/data")[0] == 69
