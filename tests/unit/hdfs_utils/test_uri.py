"""URIs and paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils import uri
from hdfs_utils.errors import InvalidPath
from hdfs_utils.uri import MAX_NAME_BYTES, Uri, hidden_sibling


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hdfs://host:8020/a/b", Uri("hdfs", "host:8020", "/a/b")),
        ("hdfs://nameservice1/a", Uri("hdfs", "nameservice1", "/a")),
        ("HDFS://host:8020", Uri("hdfs", "host:8020", "/")),
        ("hdfs:///a//b/./c/../d/", Uri("hdfs", "", "/a/b/d")),
        ("viewfs://mounts/a", Uri("viewfs", "mounts", "/a")),
        ("hdfs://[::1]:8020/a", Uri("hdfs", "[::1]:8020", "/a")),
        ("file:///a", Uri("file", "", "/a")),
        ("file:/a", Uri("file", "", "/a")),
        ("/a/%41?x#y", Uri("", "", "/a/%41?x#y")),
        ("/", Uri("", "", "/")),
    ],
)
def test_parse(text: str, expected: Uri) -> None:
    assert uri.parse(text) == expected
    assert uri.parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("a/b", "absolute"),
        ("hdfs://host:8020a/b", "not host"),
        ("hdfs://ho st/b", "not host"),
        ("hdfs://host:0/b", "port"),
        ("hdfs://host:65536/b", "port"),
        ("hdfs:a/b", "absolute"),
        ("s3://bucket/a", "unknown scheme"),
        ("file://home/a", "file:///home"),
        ("/..", "above the root"),
        ("/a/../../b", "above the root"),
        ("/a\0b", "NUL"),
    ],
)
def test_bad_uris_say_why(text: str, reason: str) -> None:
    with pytest.raises(InvalidPath, match=reason):
        uri.parse(text)


def test_join_parent_and_name() -> None:
    assert uri.join("/a/", "b/c", "d") == "/a/b/c/d"
    assert uri.join("/", "a") == "/a"
    assert uri.parent("/a/b") == "/a"
    assert uri.parent("/a") == "/"
    assert uri.parent("/") == "/"
    assert uri.name("/a/b/") == "b"
    assert uri.name("/") == ""
    base = uri.parse("hdfs://h:1/a")
    assert str(base.join("b")) == "hdfs://h:1/a/b"


@pytest.mark.parametrize("part", ["..", "b/../../c", "/b", ""])
def test_join_stays_below(part: str) -> None:
    with pytest.raises(InvalidPath):
        uri.join("/a", part)
    # A sibling whose name begins alike is outside, too.
    with pytest.raises(InvalidPath):
        uri.join("/a", "../ab")


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
def test_normalising_twice_changes_nothing(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    try:
        once = uri.normalise(path)
    except InvalidPath:
        assert ".." in path.split("/")
        return
    assert uri.normalise(once) == once
    assert "//" not in once
    assert once == "/" or not once.endswith("/")
    assert not {".", ".."} & set(once.split("/"))


@pytest.mark.parametrize(
    "name", ["a", "x" * 217, "x" * 218, "x" * 255, "\u00e9" * 127, "\u20ac" * 85]
)
def test_a_name_beside_another_fits_and_is_its_own(name: str) -> None:
    suffix = ".0123456789abcdef0123456789abcdef.tmp"
    made = hidden_sibling(f"/d/{name}", suffix)
    assert made.startswith("/d/.")
    assert made.endswith(suffix)
    assert len(made.rpartition("/")[2].encode()) <= MAX_NAME_BYTES
    assert made == f"/d/.{name}{suffix}" or "~" in made
    assert made != hidden_sibling(f"/d/{name[:-1]}y", suffix), "another name, another digest"
