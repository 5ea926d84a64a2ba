"""The administrator's first page, from its first command to its last, on a cluster."""

from __future__ import annotations

import shlex
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.submit_world import SubmitWorld
from tests.unit.docs.pages import ROOT, Block, blocks
from yarnam.adapters.yarn.addresses import read_settings

pytestmark = [pytest.mark.yarn, pytest.mark.hdfs, pytest.mark.timeout(600)]

PAGE = ROOT / "docs" / "start" / "prepare-a-cluster.md"
ENDLESS = {"yarnam queues show root --watch": "root", "yarnam ui": "http://127.0.0.1:"}
"""Commands that run until Ctrl-C, and what they print before."""


def commands(block: Block) -> list[str]:
    lines = block.text.splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return lines


def test_an_administrator_prepares_a_cluster(submit_world: SubmitWorld, unique_name: Any) -> None:
    """The page's files are those of this cluster, and the history has a job."""
    name = unique_name("before")
    submit_world.await_state(submit_world.submit(submit_world.spec(name, "true")), "SUCCEEDED")
    folder, conf_dir = submit_world.folder, str(submit_world.conf_dir)
    settings = read_settings(conf_dir, "yarn-site.xml")
    queues = Path(settings["yarn.scheduler.fair.allocation.file"])
    for file in ("fair-scheduler.xml", "new.xml"):
        shutil.copy(queues, folder / file)
    shown = [line for block in blocks("sh", "console", pages=[PAGE]) for line in commands(block)]
    assert "yarnam doctor" in shown
    assert ENDLESS.keys() <= set(shown)
    for line in shown:
        words = shlex.split(line.replace("/etc/hadoop/conf", conf_dir))
        if words[0] == "export":
            assert line == "export HADOOP_CONF_DIR=/etc/hadoop/conf"
        elif line in ENDLESS:
            watch(submit_world, words[1:], ENDLESS[line])
        else:
            done = submit_world.run(*words[1:])
            # What it finds on this small cluster is advice, not a fault of the page.
            assert done.code in {0, 78} if words[1] in {"doctor", "queues"} else done.code == 0, (
                done
            )


def watch(world: SubmitWorld, arguments: list[str], shows: str) -> None:
    process = world.start(*arguments)
    try:
        assert process.stdout is not None
        assert any(shows in line for line in iter(process.stdout.readline, "")), arguments
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
