"""The same events lead to the same actions, byte for byte, on every commit."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.golden.journals import (
    FOLDER,
    VERSION_1,
    is_same_story,
    journal,
    replay,
)
from tests.golden.scenarios import SCENARIOS, Play

NAMES = [story.__name__ for story in SCENARIOS]


@pytest.mark.parametrize("name", NAMES)
def test_replay_is_byte_for_byte(name: str) -> None:
    stored = (FOLDER / f"{name}.jsonl").read_bytes()
    assert replay(stored).splitlines() == stored.splitlines()


@pytest.mark.parametrize("name", sorted(path.stem for path in VERSION_1.iterdir()))
def test_a_journal_of_version_1_leads_to_the_same_actions(name: str) -> None:
    stored = (VERSION_1 / f"{name}.jsonl").read_bytes()
    lines = zip(stored.splitlines(), replay(stored).splitlines(), strict=True)
    for old, new in lines:
        assert is_same_story(json.loads(old), json.loads(new)), (old, new)


@pytest.mark.parametrize("story", SCENARIOS, ids=NAMES)
def test_the_story_still_goes_like_this(story: Callable[[], Play]) -> None:
    play = story()
    stored = (FOLDER / f"{story.__name__}.jsonl").read_bytes()
    assert journal(play.spec, play.events).splitlines() == stored.splitlines()


def test_every_journal_has_its_story() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)


def test_the_stories_end_as_they_should() -> None:
    ends = {story.__name__: story().verdict.exit_code for story in SCENARIOS}
    assert ends == {
        "grows_and_shrinks": 0,
        "goes_on_while_tasks_come_and_go": 0,
        "leaves_on_notice_and_does_not_re_form": 0,
        "shrinks_instead_of_dying": 0,
        "happy_path": 0,
        "hold_timeout_and_retry": 0,
        "cancelled_while_running": 93,
        "lost_node": 0,
        "am_restart": 0,
        "adopted_by_the_next_am": 0,
        "attempts_exhausted": 92,
        "replaced_in_place": 0,
        "not_replaced_in_time": 0,
        "preempted": 0,
        "fails_while_its_peers_hang": 90,
        "hangs_and_goes_on": 0,
        "moves_from_a_slow_node": 0,
        "gpus_idle": 0,
        "a_slow_node_is_found_by_its_check": 0,
        "leaves_when_yarn_announces_it": 0,
        "suspended_and_resumed": 0,
        "node_struck_off": 0,
        "outputs_stored_by_the_second_am": 0,
        "outputs_not_stored_in_time": 69,
        "passes_its_pre_run": 0,
        "roles_end_in_different_ways": 0,
        "workers_start_when_the_server_is_ready": 90,
        "prepares_before_it_trains": 0,
        "waits_for_another_job": 0,
        "runs_for_its_time_limit": 95,
    }
