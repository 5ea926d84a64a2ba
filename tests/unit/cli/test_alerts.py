"""`yarnam alerts` from look to look."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.world import World
from yarnam.cli.shell import Shell, run
from yarnam.client.queues import alert_check
from yarnam.core.model.snapshot import NodeStrike
from yarnam.errors import ExitCode, Unavailable


class Admin:
    def __init__(self, world: World, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.file = world, folder / "state" / "alerts.json"
        self.strikes: tuple[NodeStrike, ...] | Exception = ()
        self._capsys = capsys

    def read(self, site: object) -> tuple[NodeStrike, ...]:
        if isinstance(self.strikes, Exception):
            raise self.strikes
        return self.strikes

    def look(self, *words: str) -> tuple[int, str, str]:
        shell = Shell(lambda **_: self.world.client)
        code = run(["alerts", "--state-file", str(self.file), *words], shell)
        return (code, *self._capsys.readouterr())

    def strike(self) -> None:
        node = self.world.rm.nodes[0].node_id
        self.strikes = tuple(
            NodeStrike(node, f"application_1_{k}", time.time() - k, "ECC error") for k in range(3)
        )


@pytest.fixture
def admin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Admin:
    made = Admin(World(tmp_path / "world"), tmp_path, capsys)
    monkeypatch.setattr(alert_check, "read_strikes", made.read)
    return made


def test_cron_hears_of_each_alert_once_and_of_its_end_once(admin: Admin) -> None:
    assert admin.look("--once") == (0, "", "")
    admin.strike()
    code, said, _ = admin.look("--once")
    assert code == 1
    assert said.startswith("alert    node n1 was struck 3 times within a day by 3 jobs")
    assert admin.look("--once") == (1, "", "")
    assert "struck 3 times" in admin.look()[1], "without --once it is listed"
    state = json.loads(admin.file.read_text())
    for one in (*state["state"]["strikes"], *state["state"]["alerts"]):
        one["at_s"] = 1.0
    admin.file.write_text(json.dumps(state))
    admin.strikes = ()
    code, said, _ = admin.look("--once")
    assert code == 0
    assert said.startswith("cleared  node n1 was struck")
    assert admin.look("--once") == (0, "", "")


def test_without_once_nothing_is_remembered(admin: Admin) -> None:
    admin.strike()
    assert admin.look()[0] == 1
    assert not admin.file.exists()


def test_json_has_all_of_it(admin: Admin) -> None:
    admin.strike()
    found: dict[str, Any] = json.loads(admin.look("--once", "--json")[1])
    assert [one["kind"] for one in found["said"]] == ["node-struck"]
    assert [one["subject"] for one in found["active"]] == ["n1"]
    assert found["cleared"] == found["missing"] == []


def test_what_cannot_be_read_clears_nothing_and_has_its_exit_code(admin: Admin) -> None:
    admin.strike()
    admin.look("--once")
    admin.strikes = Unavailable("ZooKeeper does not answer")
    code, said, missing = admin.look("--once")
    assert (code, said) == (ExitCode.UNAVAILABLE, "")
    assert "strikes against nodes are not known: ZooKeeper does not answer" in missing
    admin.world.rm.failure = Unavailable("no answer from the ResourceManager")
    before = admin.file.read_bytes()
    assert admin.look("--once")[0] == ExitCode.UNAVAILABLE
    assert admin.file.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", "is not a file of alerts"),
        ('{"kind":"yarnam-alerts","version":9,"cluster":"","state":{}}', "of another version"),
        ('{"kind":"yarnam-alerts","version":1,"cluster":"hdfs://b","state":{}}',
         "is about the cluster hdfs://b, not hdfs://memory"),
    ],
)  # fmt: skip
def test_another_file_is_refused_and_kept(admin: Admin, content: str, text: str) -> None:
    admin.file.parent.mkdir()
    admin.file.write_text(content)
    code, _, said = admin.look("--once")
    assert code == ExitCode.USAGE
    assert text in said
    assert admin.file.read_text() == content


def test_two_looks_at_a_time_do_not_share_a_file(admin: Admin) -> None:
    with alert_check.own_state(admin.file):
        code, _, said = admin.look("--once")
    assert code == ExitCode.UNAVAILABLE
    assert "another `yarnam alerts --once` uses" in said
    assert admin.look("--once")[0] == 0
