"""Keys, tags and directories of jobs."""

from __future__ import annotations

from yarnam.client.user_paths import UserPaths, is_key, key_in, new_key, tag_of


def test_keys_are_unique_and_sort_by_time() -> None:
    keys = {new_key(1000.0) for _ in range(100)}
    assert len(keys) == 100
    assert all(is_key(key) for key in keys)
    assert new_key(1000.0) < new_key(1001.0)


def test_the_key_comes_back_out_of_the_tags() -> None:
    key = new_key()
    assert key_in(["yarnam", "mine", tag_of(key)]) == key
    assert key_in(["yarnam", "yarnam-job-../../etc"]) is None
    assert key_in([]) is None


def test_everything_lies_below_the_users_home() -> None:
    places = UserPaths("hdfs://nn:8020/user/me")
    assert places.job("k") == "hdfs://nn:8020/user/me/.yarnam/jobs/k"
    for path in (places.runtimes, places.environments, places.application("a"), places.jobs):
        assert path.startswith("hdfs://nn:8020/user/me/.yarnam/")
    assert places.skein_staging("a") == "hdfs://nn:8020/user/me/.skein/a"
