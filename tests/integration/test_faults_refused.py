"""What is wrong with a job is said at submit, before anything is asked of YARN or left on HDFS.

The rest of these, and how soon they come: test_submit_refused.py."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from hdfs_utils import uri as uris
from tests.integration.fault_world import MARKS
from yarnam.errors import ExitCode

if TYPE_CHECKING:
    from tests.integration.fault_world import Done, FaultWorld

pytestmark = MARKS

REFUSED_S = 40.0
"""Several at once, on two cores that may have much else to do."""

AT_ONCE = 3


@dataclass(frozen=True)
class Refusal:
    """A spec that differs from a good one, and what must be said of it."""

    code: ExitCode
    said: tuple[str, ...]
    changes: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    """Instead of ``changes``: the whole document."""


REFUSALS = {
    "not YAML": Refusal(
        ExitCode.BAD_SPEC, (":3:1: not valid YAML",), text="version: 1\nname: [never closed\n"
    ),
    "a key of other systems": Refusal(
        ExitCode.BAD_SPEC, ("sweep", "submit --array"), {"sweep": {"lr": [1, 2]}}
    ),
    "more memory than any node": Refusal(
        ExitCode.NEVER_FITS, ("71680 MiB", "65536 MiB"), {"worker": {"memory": "70GiB"}}
    ),
    "missing file on HDFS": Refusal(
        ExitCode.BAD_SPEC, ("file 'base'", "hdfs:///no/base"), {"files": ["hdfs:///no/base"]}
    ),
    "missing code": Refusal(ExitCode.BAD_SPEC, ("code", "no-such-dir"), {"code": "no-such-dir"}),
    "missing environment on HDFS": Refusal(
        ExitCode.BAD_SPEC,
        ("environment archive", "hdfs:///envs/no.tar.gz"),
        {"environment": {"archive": "hdfs:///envs/no.tar.gz"}},
    ),
    "missing variable": Refusal(
        ExitCode.BAD_SPEC, ("NO_SUCH_TOKEN",), {"env": {"NO_SUCH_TOKEN": {"from": "client"}}}
    ),
    "several things at once": Refusal(
        ExitCode.BAD_SPEC,
        ("queue root.nowhere does not exist", "Also:", "/data/no/train", "hdfs:///no/base"),
        {
            "queue": "root.nowhere",
            "files": ["hdfs:///no/base"],
            "data": {"inputs": ["/data/no/train"]},
        },
    ),
}


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(world: FaultWorld) -> Iterator[None]:
    """No application was asked for and no job's directory made, over all tests of this module."""
    before = _applications(world), _job_directories(world)
    yield
    assert (_applications(world), _job_directories(world)) == before


def _applications(world: FaultWorld) -> set[str]:
    found = (world.rm("apps")["apps"] or {}).get("app") or []
    return {app["id"] for app in found if app["name"].startswith("refused-")}


def _job_directories(world: FaultWorld) -> set[str]:
    folder = uris.parse(world.site.paths.jobs).path
    if not world.site.files.exists(folder):
        return set()
    found = set()
    for entry in world.site.files.list(folder):
        record = f"{entry.path}/job.json"
        if not world.site.files.exists(record):
            found.add(entry.path)  # half-made
        elif json.loads(world.site.files.read_bytes(record))["job"]["name"].startswith("refused-"):
            found.add(entry.path)
    return found


@pytest.fixture(scope="module")
def endings(world: FaultWorld) -> Mapping[str, Done]:
    """All refused submits of this module, some at a time."""
    runs = {case: _arguments(world, case) for case in REFUSALS}

    def submit(case: str) -> Done:
        return world.yarnam("submit", "--watch", runs[case]).wait()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(runs, pool.map(submit, runs), strict=True))


def _arguments(world: FaultWorld, case: str) -> str:
    refusal = REFUSALS[case]
    name = f"refused-{case.lower().replace(' ', '-')}"
    if not refusal.text:
        return str(world.write(world.document(name, ["true"], **refusal.changes)))
    path = world.folder / f"{name}.yaml"
    path.write_text(refusal.text, encoding="utf-8")
    return str(path)


@pytest.mark.timeout(400)  # the first one waits for all of them
@pytest.mark.parametrize("case", REFUSALS)
def test_it_is_refused_with_its_reason(endings: Mapping[str, Done], case: str) -> None:
    done = endings[case]
    assert done.code == REFUSALS[case].code, done
    for words in REFUSALS[case].said:
        assert words in done.err, f"{words!r} is not said: {done}"
    assert done.out == "", done
    assert "Traceback" not in done.err, done
    assert done.took_s < REFUSED_S, done
