"""Several writers' trees as one: nothing is lost, nobody's name is taken by another."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils.filesystem import FileStatus
from hdfs_utils.outputs.merge import MergePlan, Move, plan_merge
from hdfs_utils.protocols.untrusted import Record

ROOT = "/s"


def status(path: str, length: int | None) -> FileStatus:
    is_dir = length is None
    return FileStatus(path, length or 0, is_dir, 0, "u", "g", 0o644, 1, 0)


def found(**writers: dict[str, int | None]) -> list[tuple[str, list[FileStatus]]]:
    return [
        (name, [status(f"{ROOT}/{name}/{path}", length) for path, length in tree.items()])
        for name, tree in writers.items()
    ]


def test_what_one_writer_alone_has_moves_as_it_is() -> None:
    merged = plan_merge(ROOT, found(w0={"a": None, "a/x": 1, "a/y": 2, "b": 3}, w1={"c": None}))
    assert merged.directories == ()
    assert merged.moves == (Move("w0/a", "a", 2), Move("w0/b", "b", 1), Move("w1/c", "c", 0))
    assert (merged.files, merged.size_bytes, merged.renamed) == (3, 6, 0)


def test_directories_of_one_name_are_merged() -> None:
    merged = plan_merge(ROOT, found(w0={"a": None, "a/x": 1}, w1={"a": None, "a/y": 2}))
    assert merged.directories == ("a",)
    assert merged.moves == (Move("w0/a/x", "a/x", 1), Move("w1/a/y", "a/y", 1))


def test_the_first_writer_keeps_a_name_and_the_others_are_told_apart() -> None:
    trees = found(w0={"log": 1}, w1={"log": 2, "log.w1": 3}, w2={"log": None, "log/x": 4})
    merged = plan_merge(ROOT, trees)
    assert {(file.path, file.writer, file.length) for file in merged.listed} == {
        ("log", "w0", 1),
        ("log.w1_", "w1", 2),
        ("log.w1", "w1", 3),
        ("log.w2/x", "w2", 4),
    }
    assert merged.renamed == 2


def test_reserved_names_are_nobodys() -> None:
    merged = plan_merge(ROOT, found(w0={"_SUCCESS": 0, "d": None, "d/_SUCCESS": 0}), ["_SUCCESS"])
    assert [file.path for file in merged.listed] == ["_SUCCESS.w0", "d/_SUCCESS"]


NAMES = st.sampled_from(["a", "b", "a.w0", "a.w1", "_SUCCESS"])
TREES = st.recursive(
    st.integers(0, 9), lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
).filter(lambda tree: isinstance(tree, dict))


def flat(tree: dict[str, object], at: str = "") -> dict[str, int | None]:
    out: dict[str, int | None] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            out[f"{at}{name}"] = None
            out |= flat(value, f"{at}{name}/")
        else:
            assert isinstance(value, int)
            out[f"{at}{name}"] = value
    return out


@given(trees=st.lists(TREES, min_size=1, max_size=4))
def test_no_file_is_lost_and_no_two_have_one_path(trees: list[dict[str, object]]) -> None:
    writers = {f"w{number}": flat(tree) for number, tree in enumerate(trees)}
    merged = plan_merge(ROOT, found(**writers), ["_SUCCESS"])
    paths = [file.path for file in merged.listed]
    assert len(set(paths)) == len(paths)
    assert "_SUCCESS" not in paths
    written = sorted(
        (writer, length) for writer, tree in writers.items() for length in tree.values()
        if length is not None
    )  # fmt: skip
    assert sorted((file.writer, file.length) for file in merged.listed) == written
    # Every entry moves once, with all that is in it, to where nothing else is.
    sources = [move.source for move in merged.moves]
    targets = [move.target for move in merged.moves]
    for names in (sources, targets):
        inside = [(one, other) for one in names for other in names if one.startswith(f"{other}/")]
        assert not inside
        assert len(set(names)) == len(names)
    assert sum(move.files for move in merged.moves) == merged.files
    assert MergePlan.of_record(Record(json.loads(json.dumps(merged.plain())))) == merged
