"""Which files an input has, and whether the spec's wishes go with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_utils.errors import PermissionDenied
from tests.unit.client.world import World, job_spec
from yarnam.client.submit.input_files import input_files
from yarnam.client.submit.preflight import check_job
from yarnam.core.model.job_spec import DataInput, InputMode, JobSpec, Sharding, StagingSpec
from yarnam.errors import BadSpec

NAMES = ("2023/a.rec", "2024-01/a.rec", "2024-01/b.txt", "2024-02/x/a.rec", "2024-02/_log", "c.rec")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for name in NAMES:
        made.files.write_bytes(f"/data/set/{name}", b"x" * 1000)
    return made


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", {"2023/a.rec", "2024-01/a.rec", "2024-01/b.txt", "2024-02/x/a.rec", "c.rec"}),
        ("*.rec", {"c.rec"}),
        ("2024-*", {"2024-01/a.rec", "2024-01/b.txt", "2024-02/x/a.rec"}),
        ("2024-*/*.rec", {"2024-01/a.rec"}),
        ("202[34]*/?.rec", {"2023/a.rec", "2024-01/a.rec"}),
        ("*/x/*", {"2024-02/x/a.rec"}),
        ("none*", set()),
    ],
)
def test_patterns(world: World, pattern: str, names: set[str]) -> None:
    found = input_files(world.files, "/data/set", pattern)
    assert {each.path.removeprefix("/data/set/") for each in found} == names


def job(given: DataInput, **more: object) -> JobSpec:
    return replace(job_spec(inputs=(given,)), **more)  # type: ignore[arg-type]


SET = DataInput("set", "/data/set")


def test_the_list_is_fixed_at_submit(world: World) -> None:
    given = replace(SET, pattern="2024-*/*.rec", mode=InputMode.CACHE)
    (outcome,) = check_job(world.site, job(given)).inputs
    listed = outcome.listed
    assert listed is not None
    assert [name for name, _, _ in listed.files] == ["2024-01/a.rec"]
    assert (listed.root, listed.is_file) == ("/data/set", False)
    one = check_job(world.site, job(DataInput("one", "/data/set/c.rec"))).inputs[0].listed
    assert one is not None
    assert (one.is_file, [name for name, _, _ in one.files]) == (True, ["c.rec"])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (replace(SET, pattern="*.parquet"), "no file matches /data/set/*.parquet"),
        (
            replace(SET, pattern="c.*", shard=Sharding.FILES),
            "1 file for 4 processes: with shard: files, some would have nothing to read",
        ),
        (replace(SET, mode=InputMode.CACHE), "do not go into data.cache_max_size, 1.0 MiB"),
    ],
)
def test_what_cannot_be_is_refused(world: World, given: DataInput, words: str) -> None:
    world.files.write_bytes("/data/set/large.rec", b"x" * (1 << 20))
    spec = job(given, staging=StagingSpec(cache_max_mib=1))
    role = replace(spec.roles[0], tasks=2, processes_per_task=2)
    with pytest.raises(BadSpec) as caught:
        check_job(world.site, replace(spec, roles=(role,)))
    assert words in str(caught.value)


def test_what_may_not_be_read_is_refused(world: World) -> None:
    def fail(operation: str, path: str) -> None:
        if path == "/data/set/c.rec" and operation not in ("stat", "list"):
            raise PermissionDenied("not yours", path=path)

    world.files.fail = fail
    with pytest.raises(BadSpec, match=r"input 'set': no read access to /data/set/c.rec"):
        check_job(world.site, job(replace(SET, pattern="c.rec")))


def test_an_optional_role_needs_no_file_of_its_own(world: World) -> None:
    spec = job(replace(SET, pattern="c.*", shard=Sharding.FILES))
    worker = replace(spec.roles[0], tasks=1, processes_per_task=1)
    extra = replace(worker, name="extra", tasks=3, optional=True)
    check_job(world.site, replace(spec, roles=(worker, extra)))
