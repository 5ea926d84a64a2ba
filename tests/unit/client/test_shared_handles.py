"""Handles in several threads and processes, and what lists and tables are made of."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.client.world import APPLICATION, World, status, task, verdict
from yarnam import Client, Job, JobEnded, WaitTimeout
from yarnam.client import metrics_table
from yarnam.client.job import HOLD_S
from yarnam.client.monitor.job_end import error_of
from yarnam.client.user_paths import new_key, tag_of
from yarnam.core.model.events import CancelRequested, Event, JobStarted
from yarnam.core.model.job_status import JobState
from yarnam.core.model.metrics import Measured
from yarnam.core.model.outcomes import VerdictKind
from yarnam.errors import BadSpec, GangTimeout, Unavailable, YarnamError, error_classes
from yarnam.wire.codec import encode

KEY = "20261121-000000-abcdef"
SPEC = {"version": 1, "name": "a", "queue": "root.dl", "gpus": 1, "command": ["true"]}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def reachable(world: World) -> World:
    """Its configuration names a NameNode, as one must that is read again."""
    (world.site.conf_dir / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name>"
        "<value>hdfs://127.0.0.1:8020</value></property></configuration>"
    )
    return world


# ---- pickles -----------------------------------------------------------------------------------


def test_a_handle_goes_to_another_process(reachable: World) -> None:
    world = reachable
    job = world.job(key=KEY)
    job.status()
    found = pickle.loads(pickle.dumps(job))
    assert isinstance(found, Job)
    assert found.id == job.id
    assert found._sources.site.conf_dir == world.site.conf_dir
    assert (found._sources.user, found._sources.site.user, found._sources.key) == ("me", "me", KEY)
    again = pickle.loads(pickle.dumps(job))
    assert again._sources.site is found._sources.site, "handles of one cluster share its adapters"


def test_a_client_goes_to_another_process(reachable: World) -> None:
    world = reachable
    found = pickle.loads(pickle.dumps(world.client))
    assert isinstance(found, Client)
    assert (found.site.conf_dir, found.site.user) == (world.site.conf_dir, "me")


def test_the_environment_does_not_travel(world: World) -> None:
    world.site.environ = {"TOKEN": "hunter2"}
    assert b"hunter2" not in pickle.dumps([world.client, world.job(key=KEY)])


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_each_end_is_an_error_of_its_class_with_its_verdict(kind: type[YarnamError]) -> None:
    given = verdict(VerdictKind.FAILED, int(kind.exit_code), "it went wrong")
    error = error_of(replace(given, hint="do that"), APPLICATION)
    assert isinstance(error, kind)
    assert isinstance(error, JobEnded)
    assert (error.exit_code, error.blame, error.retryable) == (
        kind.exit_code, kind.blame, kind.retryable,
    )  # fmt: skip
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), found.verdict, found.application) == (
        type(error), error.verdict, APPLICATION,
    )  # fmt: skip
    assert str(found) == "it went wrong\n  do that"


def test_a_verdict_of_a_later_version_is_an_internal_error() -> None:
    error = error_of(verdict(VerdictKind.FAILED, 99, "of the future"))
    assert error is not None
    assert error.verdict.exit_code == 99


# ---- waiting -----------------------------------------------------------------------------------


def test_wait_calls_back_and_its_time_is_a_timeout_error(world: World) -> None:
    job = world.job(key=KEY)
    world.line.statuses = [status(step=1), status(step=2)]
    seen: list[int | None] = []
    with pytest.raises(TimeoutError) as caught:
        job.wait(timeout_s=0.05, on_status=lambda found: seen.append(found.step))
    assert seen == [1, 2]
    assert isinstance(caught.value, WaitTimeout)
    assert isinstance(caught.value, Unavailable)
    assert caught.value.status is not None
    assert caught.value.status.step == 2
    copied = pickle.loads(pickle.dumps(caught.value))
    assert copied.status == caught.value.status


def test_watching_events_goes_on_over_a_restart_of_the_am(world: World) -> None:
    job = world.job(key=KEY)
    story: list[Event] = [JobStarted(1.0), CancelRequested(2.0, "me")]
    world.line.journal = story[:1]
    found = job.watch_events()
    assert next(found) == story[0]
    world.line.failure = Unavailable("no answer")
    timer = threading.Timer(0.05, lambda: setattr(world.line, "failure", None))
    timer.start()
    world.line.journal = list(story)
    assert next(found) == story[1]
    timer.join()
    world.line.statuses = [status(JobState.SUCCEEDED, verdict=verdict())]
    world.put(KEY, "verdict.json", encode(verdict()))
    world.rm.change(APPLICATION, state="FINISHED")
    assert list(found) == []


def test_threads_share_one_handle(world: World) -> None:
    job = world.job(key=KEY)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: job.status().state, range(200)))
    assert set(found) == {JobState.RUNNING}
    assert len(world.lines) <= 8, "each thread may connect once at the start; one connection stays"


def test_logs_that_end_leave_another_threads_connection_alone(world: World) -> None:
    job = world.job(key=KEY)
    job.status()
    kept = job._sources._job_client
    list(job.logs())
    assert job._sources._job_client is kept


def test_a_question_is_kept_open_for_seconds_only() -> None:
    assert HOLD_S < 30, "less than an application counts as followed"


# ---- lists and tables --------------------------------------------------------------------------


def test_lists_are_filtered_and_cost_one_request(world: World) -> None:
    keys = [new_key() for _ in range(3)]
    for number, (key, queue) in enumerate(
        zip(keys, ("root.dl", "root.dl", "root.research"), strict=True)
    ):
        application = f"application_1700000000000_{number:04}"
        tags = ("yarnam", tag_of(key), "team:a", *(("nightly",) if number else ()))
        world.job(key=key, application=application)
        world.rm.change(
            application,
            queue=queue,
            tags=tags,
            name=f"train-{number}",
            state="ACCEPTED",
            started_at_s=1000.0 + number,
        )
    world.rm.asked = 0
    assert len(world.client.jobs()) == 3
    assert world.rm.asked == 1

    def names(**filters: object) -> list[str]:
        return sorted(found.name for found in world.client.jobs(**filters))  # type: ignore[arg-type]

    assert names(queue="root.dl") == ["train-0", "train-1"]
    assert names(name="train-2") == ["train-2"]
    assert names(tags=["team:a", "nightly"]) == ["train-1", "train-2"]
    assert names(tags=["nightly"], queue="root.dl") == ["train-1"]
    assert names(since_s=1001.0) == ["train-1", "train-2"]


def test_tags_of_a_submit_come_on_top_of_the_specs(world: World) -> None:
    job = world.client.submit({**SPEC, "tags": ["a"]}, tags=["b", "a"])
    assert job.tags() == ("a", "b")
    assert {"a", "b"} <= set(world.rm.apps[job.id].tags)
    with pytest.raises(BadSpec, match="'yarnam-x': tags that begin with yarnam are reserved"):
        world.client.submit(SPEC, tags=["yarnam-x"])
    with pytest.raises(BadSpec, match="at most 7 tags"):
        world.client.submit(SPEC, tags=[f"t{number}" for number in range(8)])


def test_metrics_are_an_arrow_table(world: World) -> None:
    job = world.job(key=KEY)
    worker = task("worker-0", (0, 1), step=7)
    worker = replace(worker, metrics=(("loss", Measured(0.5)), ("accuracy", Measured(0.9))))
    world.line.statuses = [status(tasks=(worker, task("worker-1", (2, 3))), at_s=1700000000.25)]
    table = job.metrics()
    assert table.column("metric").to_pylist() == ["loss", "accuracy"]
    assert table.column("value").to_pylist() == [0.5, 0.9]
    assert table.column("ranks").to_pylist() == [[0, 1], [0, 1]]
    assert table.column("step").to_pylist() == [7, 7]
    assert table.column("time").to_pylist()[0].timestamp() == 1700000000.25
    nothing = metrics_table([])
    assert (nothing.num_rows, nothing.schema) == (0, table.schema)


def test_a_gang_that_timed_out_may_be_tried_again() -> None:
    error = error_of(verdict(VerdictKind.FAILED, 92, "never complete"))
    assert isinstance(error, GangTimeout)
    assert error.retryable
