"""Roles on the real cluster that end, fail and start in different ways, by plain programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.fault_world import AM, MARKS, kill_now
from yarnam.core.model.events import AmRestarted, TaskReady, TaskStarted
from yarnam.core.model.job_status import Phase
from yarnam.core.model.outcomes import VerdictKind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.fault_world import FaultWorld
    from yarnam.client import Job

pytestmark = [*MARKS, pytest.mark.timeout(400)]

QUICK: dict[str, Any] = {"backoff": {"base": "200ms", "cap": "1s"}}
SMALL = {"memory": "512MiB", "vcores": 1}


def submit(world: FaultWorld, name: str, roles: dict[str, dict[str, Any]]) -> Job:
    document = world.document(name, "true", gang=QUICK)
    document["roles"] = {role: {**SMALL, **keys} for role, keys in roles.items()}
    job = world.client.submit(world.write(document))
    world.jobs.append(job)
    return job


def test_a_job_as_tensorflow_has_them(world: FaultWorld, unique_name: Any) -> None:
    """Parameter servers never end, one worker of two fails, TensorBoard crashes at once."""
    fails = 'if [ "$YARNAM_TASK_INDEX" = 1 ]; then exit 3; fi; sleep 3'
    job = submit(
        world,
        unique_name("rated"),
        {
            "tensorboard": {"service": True, "optional": True, "command": "exit 9"},
            "ps": {"command": "sleep 600"},
            "worker": {"tasks": 2, "command": fails, "completion": {"at_least": 1}},
            "chief": {"command": "sleep 4"},
            "evaluator": {"command": "sleep 5"},
        },
    )
    running = world.until(
        job,
        lambda s: any(one.role == "worker" and one.failed for one in s.roles),
        "failed worker",
    )
    assert running.restarts == 0
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    assert "1 of 2 worker tasks ended well" in verdict.message
    assert "1 ps task stopped then" in verdict.message
    assert "worker-1 exited with code 3" in verdict.message
    assert "tensorboard-0 exited with code 9" in verdict.message
    shown = world.yarnam("status", job.id).wait().out
    print(shown)
    assert "role ps (service, stopped when" in shown
    assert "role worker (at least 1 task of 2 must succeed)" in shown
    world.assert_cleared(job)


@pytest.mark.long
def test_workers_wait_for_a_port_and_the_am_dies_meanwhile(
    world: FaultWorld, unique_name: Any, tmp_path: Path
) -> None:
    place, flag = tmp_path / "place", tmp_path / "listen"
    serve = (
        f"while [ ! -e {flag} ]; do sleep 0.2; done; "
        f'echo "$YARNAM_ADDRESS $YARNAM_PORT_HTTP" > {place}; '
        'exec python3 -m http.server --bind "$YARNAM_ADDRESS" "$YARNAM_PORT_HTTP"'
    )
    # Without waiting for the server: it is there when the worker starts.
    connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    use = f'read host port < {place} && python3 -c \'{connect}\' "$host" "$port"'
    job = submit(
        world,
        unique_name("ordered"),
        {
            "ps": {"command": serve, "ports": ["http"], "ready": {"port": "http"}},
            "worker": {"tasks": 2, "command": use, "after": {"role": "ps", "until": "ready"}},
        },
    )

    def waits(status: Any) -> bool:
        return any(one.state == "waits until ps is ready" for one in status.roles)

    status = world.until(job, waits, "a waiting role")
    assert status.phase == Phase.LAUNCHING.value
    world.until(job, lambda s: "1 of 3 tasks started" in s.reason, "a started ps")
    kill_now(world.am_pid(job, AM))
    world.until(job, lambda s: s.am_attempt == 2 and waits(s), "a waiting role again")
    flag.touch()
    verdict = world.end_of(job)
    assert verdict.kind is VerdictKind.SUCCEEDED, verdict
    assert [event.am_attempt for event in world.events(job, AmRestarted)] == [2]
    [ready] = world.events(job, TaskReady)
    assert ready.ask.role == "ps"
    started = [event for event in world.events(job, TaskStarted) if event.ask.role == "worker"]
    assert len(started) == 2
    assert all(event.at_s >= ready.at_s for event in started)
    world.assert_cleared(job)
