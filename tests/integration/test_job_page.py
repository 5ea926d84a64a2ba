"""The page of a real job, read through the ResourceManager's proxy."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import skein_specs
from skein_specs import interceptor
from tests.integration.submit_world import SubmitWorld
from yarnam.adapters.yarn.addresses import rm_web_urls
from yarnam.client import Client
from yarnam.cluster import EmbeddedCluster

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs]

SECRET = "s3cret-value"
START_LIMIT_S = 180.0
"""Of a gang of two on a machine that does other things as well."""
TRAINING = """
import time
from yarnam import train
for step in range(1, 10_000):
    train.report(step, total_steps=10_000, loss=1.0 / step, **{"<b>speed": 5.0})
    time.sleep(0.1)
"""


@pytest.fixture
def world(
    cluster: EmbeddedCluster, cluster_env: dict[str, str], no_leftovers: None, tmp_path: Path
) -> Iterator[SubmitWorld]:
    world = SubmitWorld(tmp_path, {**cluster_env, "TOKEN": SECRET}, cluster.conf_dir)
    yield world
    for app in world.rm.applications(user=world.user):
        world.rm.kill(app.application)
    assert world.no_process_left()


OPENER = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
"""Keeps the cookie of `yarnam ui`, as a browser does."""


def get(url: str) -> tuple[int, str, str]:
    """Status, Content-Security-Policy, body."""
    try:
        with OPENER.open(url, timeout=10) as reply:
            policy = reply.headers.get("Content-Security-Policy", "")
            return reply.status, policy, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, "", error.read().decode(errors="replace")


def await_page(url: str, *texts: str, limit_s: float = 60.0) -> str:
    """The body, once it has all of these texts."""
    deadline = time.monotonic() + limit_s
    while True:
        _, _, body = get(url)
        if all(text in body for text in texts):
            return body
        assert time.monotonic() < deadline, body
        time.sleep(0.3)


@pytest.mark.long
def test_the_tracking_url_shows_the_running_job(world: SubmitWorld, unique_name: Any) -> None:
    name = unique_name("page")
    (world.folder / "code").mkdir()
    (world.folder / "code" / "steps.py").write_text(TRAINING)
    spec = world.spec(
        name, "python3 steps.py", code="code", env={"TOKEN": {"from": "client"}},
        gpus=None, roles={"worker": {"tasks": 2, "gpus": 1}},
    )  # fmt: skip
    application = world.submit(spec)
    status = world.await_state(application, "RUNNING", limit_s=START_LIMIT_S)
    url = status["tracking_url"]
    page = await_page(url, name, "RUNNING", "all processes started", "&lt;b&gt;speed", " cores")
    assert "<b>speed" not in page
    code, policy, _ = get(url)
    assert code == 200
    assert policy.startswith("default-src 'none'")

    shown = json.loads(get(f"{url}api/v1/job")[2])
    assert shown["application"] == application
    assert {task["node"] for task in shown["tasks"]} == {task["node"] for task in status["tasks"]}
    assert all(task["node"] in page for task in shown["tasks"])
    usage = dict(shown["tasks"][0]["usage"])
    assert usage["cpu_cores"] >= 0
    assert usage["memory_bytes"] > 1 << 20
    document = json.loads(get(f"{url}api/v1/openapi.json")[2])
    for path, methods in document["paths"].items():
        content = methods["get"]["responses"]["200"]["content"]["application/json"]
        schema = {**content["schema"], "components": document["components"]}
        jsonschema.validate(json.loads(get(f"{url}api/v1{path}")[2]), schema)
    metrics = get(f"{url}metrics")[2]
    assert f'application="{application}"' in metrics
    assert 'yarnam_job_state{state="RUNNING"} 1.0' in metrics
    code, _, refusal = get(f"{url}nothing")
    assert (code, refusal) == (404, "There is no such page here.\n")

    everything = page + json.dumps(shown) + metrics + get(f"{url}api/v1/events?from=0")[2]
    assert SECRET not in everything
    assert "PRIVATE KEY" not in everything

    with world.start("ui", "--port", "0", "--json") as ui:
        assert ui.stdout is not None
        printed = json.loads(ui.stdout.readline())["url"]
        home = printed.partition("?")[0]
        try:
            assert get(home)[0] == 403
            assert name in await_page(printed, application, "Active:")
            listed = get(f"{home}?user=nobody-{name}")[2]
            assert "No active jobs pass the filters" in listed
            await_page(f"{home}jobs/{application}", name, "all processes started")
            queues = await_page(f"{home}queues", name)
            assert "Running: 1" in queues
            assert SECRET not in listed + queues
        finally:
            ui.terminate()

    assert world.run("kill", application).code == 0
    logs = world.run("logs", application, "--am")
    assert "Skein's pages have no link" not in logs.out
    assert "the job has no page" not in logs.out


@pytest.mark.long
def test_without_the_interceptor_skeins_own_page_links_to_it(
    world: SubmitWorld, unique_name: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (skein_specs, interceptor):
        monkeypatch.setattr(module, "interceptor_jar", lambda: None)
    name = unique_name("linked")
    with Client(world.conf_dir) as client:
        job = client.submit(world.spec(name, "sleep 600"))
        skeins = f"{rm_web_urls(world.conf_dir)[0]}/proxy/{job.id}/"
        await_page(f"{skeins}pages/job/", name, "Queue", limit_s=START_LIMIT_S)
        await_page(skeins, "job page")
        shown = json.loads(get(f"{skeins}pages/job/api/v1/job")[2])
        assert shown["application"] == job.id
        job.kill()
