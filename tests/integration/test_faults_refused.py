"""What is wrong with a job is said at submit, before anything is asked of YARN or left on HDFS."""

from __future__ import annotations

import json
import shutil
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
"""With several at once on two cores that others load too; tests/benchmarks holds the promise of 5 s
on a quiet machine."""

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
    "unknown key": Refusal(
        ExitCode.BAD_SPEC,
        (":3:", "quue", "queue"),
        text="version: 1\nname: misspelt\nquue: root.dl\ncommand: [true]\ngpus: 1\n",
    ),
    "not supported yet": Refusal(
        ExitCode.BAD_SPEC, ("elastic", "not supported yet"), {"elastic": {"min": 1}}
    ),
    "unknown queue": Refusal(
        ExitCode.BAD_SPEC,
        ("there is no queue root.reserch", "Did you mean root.research?"),
        {"queue": "root.reserch"},
    ),
    "a queue above others": Refusal(
        ExitCode.BAD_SPEC, ("`root` is not a leaf queue",), {"queue": "root"}
    ),
    # The ResourceManager tells a plain user nothing of a queue's ACL before it is asked for real.
    "no permission": Refusal(
        ExitCode.NO_PERMISSION,
        ("does not have permission to submit", "queue root.locked", "Ask for SUBMIT access"),
        {"queue": "root.locked"},
    ),
    "larger than the cluster": Refusal(
        ExitCode.NEVER_FITS, ("40", "32"), {"worker": {"tasks": 5, "gpus": 8}}
    ),
    "larger than any node": Refusal(
        ExitCode.NEVER_FITS, ("9", "8"), {"worker": {"tasks": 1, "gpus": 9}}
    ),
    "more memory than any node": Refusal(
        ExitCode.NEVER_FITS, ("71680 MiB", "65536 MiB"), {"worker": {"memory": "70GiB"}}
    ),
    "larger than the queue": Refusal(
        ExitCode.NEVER_FITS,
        ("root.small", "3", "2"),
        {"queue": "root.small", "worker": {"tasks": 3}},
    ),
    "missing file": Refusal(
        ExitCode.BAD_SPEC, ("files[0]", "no such file", "weights.bin"), {"files": ["weights.bin"]}
    ),
    "missing file on HDFS": Refusal(
        ExitCode.BAD_SPEC, ("file 'base'", "hdfs:///no/base"), {"files": ["hdfs:///no/base"]}
    ),
    "missing code": Refusal(ExitCode.BAD_SPEC, ("code", "no-such-dir"), {"code": "no-such-dir"}),
    "missing environment": Refusal(
        ExitCode.BAD_SPEC,
        ("environment.archive", "no such file", "no-env.tar.gz"),
        {"environment": {"archive": "no-env.tar.gz"}},
    ),
    "missing environment on HDFS": Refusal(
        ExitCode.BAD_SPEC,
        ("environment archive", "hdfs:///envs/no.tar.gz"),
        {"environment": {"archive": "hdfs:///envs/no.tar.gz"}},
    ),
    "missing input": Refusal(
        ExitCode.BAD_SPEC,
        ("input 'train'", "/data/no/train"),
        {"data": {"inputs": ["/data/no/train"]}},
    ),
    "missing variable": Refusal(
        ExitCode.BAD_SPEC, ("NO_SUCH_TOKEN",), {"env": {"NO_SUCH_TOKEN": {"from": "client"}}}
    ),
    "several things at once": Refusal(
        ExitCode.BAD_SPEC,
        ("there is no queue root.nowhere", "also:", "/data/no/train", "hdfs:///no/base"),
        {
            "queue": "root.nowhere",
            "files": ["hdfs:///no/base"],
            "data": {"inputs": ["/data/no/train"]},
        },
    ),
}


NO_CLUSTER = "no cluster"
ADDRESSES = {"ResourceManager": "rm_url", "HDFS": "namenode_uri"}


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
    folder = uris.parse(world.site.places.jobs).path
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
def endings(world: FaultWorld, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Done]:
    """All refused submits of this module, some at a time."""
    runs = {case: _arguments(world, case) for case in REFUSALS}
    environs = {case: {} for case in REFUSALS} | {
        NO_CLUSTER: {"HADOOP_CONF_DIR": "", "HADOOP_HOME": ""},
        **{part: _nobody_there(world, tmp_path_factory, part) for part in ADDRESSES},
    }
    good = str(world.write(world.document("refused-here", ["true"])))
    runs |= dict.fromkeys((NO_CLUSTER, *ADDRESSES), good)

    def submit(case: str) -> Done:
        return world.yarnam("submit", "--watch", runs[case], **environs[case]).wait()

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


def _nobody_there(
    world: FaultWorld, tmp_path_factory: pytest.TempPathFactory, part: str
) -> dict[str, str]:
    """A configuration in which one address is a port on which nobody listens."""
    conf = tmp_path_factory.mktemp("conf") / "conf"
    shutil.copytree(world.cluster.conf_dir, conf)
    address = getattr(world.cluster, ADDRESSES[part]).rpartition("/")[2]
    changed = 0
    for site in conf.glob("*-site.xml"):
        text = site.read_text(encoding="utf-8")
        changed += address in text
        site.write_text(text.replace(address, f"{address.rpartition(':')[0]}:9"), encoding="utf-8")
    assert changed
    return {"HADOOP_CONF_DIR": str(conf)}


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


@pytest.mark.timeout(400)
def test_without_a_cluster_it_says_how_to_get_one(endings: Mapping[str, Done]) -> None:
    done = endings[NO_CLUSTER]
    assert done.code == ExitCode.BAD_CONFIG, done
    assert "HADOOP_CONF_DIR" in done.err, done
    assert "yarnam cluster up" in done.err, done


@pytest.mark.timeout(400)
@pytest.mark.parametrize("part", ADDRESSES)
def test_a_cluster_that_does_not_answer(endings: Mapping[str, Done], part: str) -> None:
    done = endings[part]
    assert done.code == ExitCode.UNAVAILABLE, done
    assert part in done.err, done
    assert "Connection refused" in done.err or "yarnam doctor" in done.err, done
    assert done.took_s < REFUSED_S, done
