"""How far inputs are on their way, over all agents."""

from __future__ import annotations

from tests.unit.gang.play import Play
from tests.unit.gang.test_staging import stage, standing
from yarnam.am.status_report import staging_status, staging_text
from yarnam.cli.rendering.status_text import staging_line
from yarnam.core.model.ids import AskId
from yarnam.ports import AgentStaging

MIB = 1 << 20


def told(play: Play, *parts: tuple[int, int, float | None]) -> list[AgentStaging]:
    """Of 100 MiB in 4 files each: done, cached (MiB), seconds left."""
    return [
        AgentStaging(ask, 4, 4 if done == 100 else 1, 100 * MIB, done * MIB, cached * MIB, left)
        for ask, (done, cached, left) in zip(play.asks(), parts, strict=False)
    ]


def test_the_slowest_decides_how_long_it_takes() -> None:
    play = standing()
    found = staging_status(play.gang, told(play, (100, 100, 0.0), (50, 0, 30.4), (10, 0, 90.0)))
    assert found is not None
    assert (found.files, found.files_done) == (12, 6)
    assert (found.size, found.done, found.cached) == (300 * MIB, 160 * MIB, 100 * MIB)
    assert (found.left_s, found.slowest) == (90.0, str(play.asks()[2]))
    words = staging_text(play.gang, found)
    assert words == "inputs: 160.0 MiB of 300.0 MiB (100.0 MiB were there), about 90 s left"


def test_what_one_does_not_know_nobody_knows() -> None:
    play = standing()
    found = staging_status(play.gang, told(play, (100, 0, 0.0), (0, 0, None), (10, 0, 90.0)))
    assert found is not None
    assert found.left_s is None
    assert staging_text(play.gang, found) == "inputs: 110.0 MiB of 300.0 MiB"


def test_agents_of_other_attempts_do_not_count() -> None:
    play = standing()
    old = [AgentStaging(AskId(7, "worker", 0), 4, 1, 100, 50, 0, 1.0)]
    assert staging_status(play.gang, old) is None
    assert staging_text(play.gang, None) == ""


def test_trouble_is_told() -> None:
    play = standing()
    asks = play.asks()
    trouble = AgentStaging(asks[0], 1, 0, 10, 0, 0, None, "the NameNode is in safe mode")
    words = staging_text(play.gang, staging_status(play.gang, [trouble]))
    assert words == "inputs: 0 B of 10 B; the NameNode is in safe mode"


def test_a_job_that_runs_says_it_in_its_details_only() -> None:
    play = standing()
    for ask in play.asks():
        stage(play, ask)
    found = staging_status(play.gang, told(play, (100, 0, 0.0), (100, 50, 0.0), (100, 0, 0.0)))
    assert found is not None
    play.start_all()
    assert staging_text(play.gang, found) == ""
    line = "inputs on the nodes: 12 files, 300.0 MiB (50.0 MiB from cache)"
    assert staging_line(found) == line
