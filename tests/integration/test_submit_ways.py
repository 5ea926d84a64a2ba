"""The same job by the ResourceManager's REST API and by Skein's driver: the same application."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import Any

import pytest
from skein.proto import skein_pb2

from tests.conftest import wait_until_idle
from tests.integration.submit_world import SubmitWorld
from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

SETTLE_S = 10.0
WAYS = ("rest", "driver")


FOREVER = "sleep 600"


def message_of(submit_world: SubmitWorld, application: str) -> Any:
    data = submit_world.files.read_bytes(f"{submit_world.home}/.skein/{application}/.skein.proto")
    return skein_pb2.ApplicationSpec.FromString(data)


def plain(message: Any, application: str) -> dict[str, Any]:
    """What must be the same; places and times of files are the job's own, so only names stay."""

    def files(of: Any) -> dict[str, tuple[int, int, str]]:
        for file in of.values():
            assert file.timestamp > 0
        # Scripts have another name in the driver's directory.
        return {name: (f.type, f.visibility, f.source.scheme) for name, f in of.items()}

    def text(of: Any) -> str:
        return re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "KEY", str(of))

    return {
        "name": message.name,
        "queue": message.queue,
        "attempts": message.max_attempts,
        "tags": sorted(text(tag) for tag in message.tags),
        "master": (
            # Skein's own are localized for its AM, which does not look at their names here.
            {name for name in files(message.master.files) if not name.startswith(".skein")},
            message.master.script,
            text(sorted(message.master.env.items())),
            message.master.log_level,
            message.master.security.cert_file.source.file.rpartition("/")[2],
        ),
        "services": {
            name: (
                files(service.files),
                service.script,
                text(sorted(service.env.items())),
                list(service.nodes),
                list(service.racks),
                service.relax_locality,
                service.allow_failures,
                service.resources.gpus,
            )
            for name, service in message.services.items()
        },
        # Which of two equal racks is asked first is the choice of that moment's snapshot.
        "instances": sorted(service.instances for service in message.services.values()),
    }


def yarns_view(cluster: EmbeddedCluster, application: str) -> dict[str, Any]:
    url = f"{cluster.rm_url}/ws/v1/cluster/apps/{application}"
    with urllib.request.urlopen(url, timeout=10) as reply:
        app = json.load(reply)["app"]
    named = ("user", "name", "queue", "applicationType", "priority", "unmanagedApplication")
    return {**{key: app[key] for key in named}, "tags": len(app["applicationTags"].split(","))}


def is_taken_away(submit_world: SubmitWorld, application: str) -> bool:
    """Skein's AM removes its directory after it has told YARN that all is over."""
    deadline = time.monotonic() + SETTLE_S
    while submit_world.files.exists(f"{submit_world.home}/.skein/{application}"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.mark.long
def test_yarn_gets_the_same_application(
    submit_world: SubmitWorld, cluster: EmbeddedCluster, unique_name: Any
) -> None:
    spec = submit_world.spec(unique_name("ways"), FOREVER, secret_env=["TOKEN"], env={"TOKEN": "x"})
    seen = []
    for way in WAYS:
        done = submit_world.run("submit", spec, "--detach", YARNAM_SUBMIT=way)
        assert done.code == 0, done.err
        application = done.out.strip()
        try:
            submit_world.await_state(application, "RUNNING")
            seen.append(
                (plain(message_of(submit_world, application), application),
                 yarns_view(cluster, application))
            )  # fmt: skip
        finally:
            assert submit_world.run("kill", application).code == 0
        assert is_taken_away(submit_world, application)
        assert not wait_until_idle(cluster)
    (by_rest, yarns_by_rest), (by_driver, yarns_by_driver) = seen
    assert yarns_by_rest == yarns_by_driver
    for part, value in by_driver.items():
        assert by_rest[part] == value, part
    assert submit_world.no_process_left()


@pytest.mark.long
def test_no_java_and_no_hadoop_where_jobs_are_submitted(
    submit_world: SubmitWorld, unique_name: Any
) -> None:
    """A machine with a Hadoop configuration and nothing else of it."""
    bare = {"PATH": "/nowhere", "JAVA_HOME": "", "HADOOP_HOME": ""}
    done = submit_world.run(
        "submit", submit_world.spec(unique_name("bare"), "true"), "--watch", **bare
    )
    assert done.code == 0, done.err
    refused = submit_world.run(
        "submit", submit_world.spec(unique_name("bare"), "true"), **bare, YARNAM_SUBMIT="driver"
    )
    assert refused.code == 78
    assert "not on the PATH" in refused.err


def test_the_doctor_says_which_way(submit_world: SubmitWorld) -> None:
    for way, words in (("rest", "REST API takes jobs"), ("driver", "driver starts")):
        findings = submit_world.run("doctor", "--json", YARNAM_SUBMIT=way).json
        (skein,) = (finding for finding in findings if finding["part"] == "Skein")
        assert words in skein["message"]
