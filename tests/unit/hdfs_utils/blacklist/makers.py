"""Short ways to values, and strategies for them."""

from __future__ import annotations

from hypothesis import strategies as st

from hdfs_utils.blacklist import Blacklist, Claim, Entry, FileVersion, Key, State, gather_entries
from hdfs_utils.filesystem import FileStatus


def status(path: str, length: int = 100, mtime_ms: int = 5) -> FileStatus:
    return FileStatus(path, length, False, mtime_ms, "me", "us", 0o644, 1, 128)


def claim(
    state: State = State.PROVED,
    by: str = "me",
    job: str = "",
    at_s: float = 1000.0,
    expires_s: float = 0.0,
    reason: str = "bad-crc",
) -> Claim:
    return Claim(state, by, job, reason, "seen", at_s, at_s, expires_s)


def entry(
    path: str, *claims: Claim, length: int = 100, mtime_ms: int = 5, checksum: str = ""
) -> Entry:
    key = Key(path, FileVersion(length, mtime_ms, checksum))
    return Entry(key, frozenset(claims or (claim(),)))


def blacklist(*entries: Entry) -> Blacklist:
    return gather_entries(entries)


_few = st.integers(0, 3)
claims = st.builds(
    Claim,
    st.sampled_from(State),
    st.sampled_from(["me", "you"]),
    st.sampled_from(["", "application_1", "application_2"]),
    st.sampled_from(["bad-crc", "truncated"]),
    st.sampled_from(["a", "b"]),
    _few.map(float),
    _few.map(float),
    _few.map(float),
)
keys = st.builds(
    Key,
    st.sampled_from(["/d/a", "/d/b"]),
    st.builds(FileVersion, _few, _few, st.sampled_from(["", "crc:1"])),
    st.sampled_from([-1, 0]),
    st.sampled_from([-1, 3]),
)
entries = st.builds(Entry, keys, st.frozensets(claims, min_size=1, max_size=4))
blacklists = st.lists(entries, max_size=5).map(gather_entries)
