"""The archives on this machine: what is not used goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from yarnam.client.environments.local_cache import (
    IN_USE_S,
    MOST_BYTES,
    UNUSED_S,
    CachedArchive,
    clear_cache,
    is_cached,
    remove_unused,
    surplus,
)
from yarnam.errors import BadConfig

NOW_S = time.time()


def archive(name: str, age_s: float, size_bytes: int = 1) -> CachedArchive:
    return CachedArchive(Path(name), size_bytes, NOW_S - age_s)


def names(found: list[CachedArchive]) -> set[str]:
    return {each.path.name for each in found}


def test_unused_archives_and_those_beyond_the_size_go() -> None:
    young, old = archive("young", 10.0), archive("old", UNUSED_S + 1)
    assert names(surplus([old, young], NOW_S)) == {"old"}
    half = MOST_BYTES // 2
    three = [archive(f"{n}", n * 2 * IN_USE_S, half) for n in (1, 2, 3)]
    assert names(surplus(three, NOW_S)) == {"3"}
    in_use = [archive(f"{n}", n, MOST_BYTES) for n in (1, 2, 3)]
    assert not surplus(in_use, NOW_S)


@pytest.mark.parametrize("folder", ["home", "home/cache", "home/cache/runtime"])
@pytest.mark.parametrize("what", ["everybody", "group", "owner"])
def test_a_cache_that_others_could_fill_is_not_used(tmp_path: Path, folder: str, what: str) -> None:
    found = tmp_path / "home" / "cache" / "runtime" / "r.tar.gz"
    found.parent.mkdir(parents=True)
    found.write_bytes(b"x")
    assert is_cached(found)
    if what == "owner":
        if os.geteuid() != 0:
            pytest.skip("gives a directory to another user")
        os.chown(tmp_path / folder, 65534, -1)
    elif what == "group":
        if os.geteuid() != 0:
            pytest.skip("gives a directory to another group")
        os.chown(tmp_path / folder, -1, 65534)
        (tmp_path / folder).chmod(0o775)
    else:
        (tmp_path / folder).chmod(0o777)
    with pytest.raises(BadConfig, match=r"local cache .* is not used") as refused:
        is_cached(found)
    assert str(tmp_path / folder) in refused.value.message.rpartition(": ")[2]
    if what == "everybody":
        (tmp_path / folder).chmod(0o1777)
        assert is_cached(found)


def test_an_archive_that_others_could_have_written_is_made_again(tmp_path: Path) -> None:
    found = tmp_path / "home" / "cache" / "runtime" / "r.tar.gz"
    found.parent.mkdir(parents=True)
    found.write_bytes(b"x")
    found.chmod(0o666)
    assert not is_cached(found)


def test_what_is_used_again_stays(tmp_path: Path) -> None:
    folder = tmp_path / "environments"
    paths = [folder / name for name in ("used.tar.gz", "unused.tar.gz", "building-x/tree/file")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (folder / "building-now").mkdir()
    for path in (*paths, folder / "building-x"):
        os.utime(path, (NOW_S - 2 * UNUSED_S,) * 2)
    assert is_cached(paths[0])
    assert not is_cached(folder / "another.tar.gz")
    clear_cache(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["building-now", "used.tar.gz"]
    clear_cache(tmp_path / "nowhere")


def test_what_was_not_used_for_a_while_is_removed_when_asked(tmp_path: Path) -> None:
    folder = tmp_path / "environments"
    folder.mkdir()
    for name, age_s in (("old", 3000.0), ("new", 10.0)):
        (folder / name).write_bytes(b"12")
        used_s = time.time() - age_s
        os.utime(folder / name, (used_s, used_s))
    (found,) = remove_unused(tmp_path, 1000.0, is_trial=True)
    assert (found.path.name, found.size_bytes) == ("old", 2)
    assert len(list(folder.iterdir())) == 2
    assert [each.path for each in remove_unused(tmp_path, 1000.0)] == [found.path]
    assert [path.name for path in folder.iterdir()] == ["new"]
