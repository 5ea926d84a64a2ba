"""From YAML to values: what scalars mean, where things stand, what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from yarnam.errors import BadSpec
from yarnam.spec.values.scalars import Ambiguous, TypedFloat, TypedInt, resolve_plain
from yarnam.spec.yaml_tree import MAX_BYTES, plain_document, tree_from_mapping, tree_from_text


def read(text: str) -> Any:
    tree = tree_from_text(text, "t.yaml")
    assert [str(problem) for problem in tree.sorted_problems()] == []
    return tree.value


def problems(text: str) -> list[str]:
    return [str(problem) for problem in tree_from_text(text, "t.yaml").sorted_problems()]


@pytest.mark.parametrize("text", ["yes", "No", "on", "OFF", "y", "N"])
def test_words_that_are_booleans_in_one_yaml_only(text: str) -> None:
    value = resolve_plain(text)
    assert isinstance(value, Ambiguous)
    assert value.is_boolean
    assert value == text


@pytest.mark.parametrize(
    "text", ["010", "1:30", "0x1F", "0o17", "0b1", "1_000", "1e3", ".inf", ".NaN"]
)
def test_words_that_are_numbers_in_one_yaml_only(text: str) -> None:
    value = resolve_plain(text)
    assert isinstance(value, Ambiguous)
    assert not value.is_boolean
    assert value == text


def test_scalars_that_every_yaml_reads_alike() -> None:
    whole, fraction = resolve_plain("-12"), resolve_plain("0.10")
    assert isinstance(whole, TypedInt)
    assert (whole, whole.text) == (-12, "-12")
    assert isinstance(fraction, TypedFloat)
    assert math.isclose(fraction, 0.1)
    assert fraction.text == "0.10"
    assert resolve_plain("True") is True
    assert resolve_plain("false") is False
    for text in ("", "~", "null"):
        assert resolve_plain(text) is None
    for text in ("2024-01-01", "host:80", "10.0.0.1", "onward", "train.py", "1.2.3"):
        assert type(resolve_plain(text)) is str


def test_a_number_with_very_many_digits_is_text_and_not_a_crash() -> None:
    assert isinstance(resolve_plain("9" * 10_000), Ambiguous)


def test_quoted_scalars_and_str_tags_are_text() -> None:
    assert read("{a: '8', b: \"yes\", c: !!str 010}") == {"a": "8", "b": "yes", "c": "010"}


def test_keys_are_text_as_typed() -> None:
    assert read("{on: 1, 8: 2, null: 3}") == {"on": 1, "8": 2, "null": 3}


def test_anchors_aliases_and_merges() -> None:
    text = "base: &b {x: 1, y: 2}\nother: &o {y: 9, z: 3}\nit: {<<: [*b, *o], x: 0}\nsame: *b\n"
    value = read(text)
    assert value["it"] == {"x": 0, "y": 2, "z": 3}
    assert value["same"] == {"x": 1, "y": 2}


def test_merges_of_merges() -> None:
    value = read("a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: *b}\n")
    assert value["c"] == {"x": 1, "y": 2}


def test_places_of_keys_values_and_items() -> None:
    tree = tree_from_text("a:\n  b: [1,\n      22]\n", "t.yaml")
    assert tree.position(("a", "b")) == (2, 3)
    assert tree.position(("a", "b"), at_value=True) == (2, 6)
    assert tree.position(("a", "b", 1)) == (3, 7)
    assert tree.position(("a", "nothing", "here")) == (1, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "t.yaml:1:1: is empty; `yarnam spec init` prints a starter"),
        ("# only\n", "t.yaml:1:1: is empty; `yarnam spec init` prints a starter"),
        ("- a\n", "t.yaml:1:1: a spec must be a mapping of keys to values, not a list"),
        ("hello\n", "t.yaml:1:1: a spec must be a mapping of keys to values, not a single value"),
        ("a: 1\nb: 2\na: 3\n", "t.yaml:3:1: a: duplicate key; first used in line 1"),
        ("a:\n\tb: 1\n", "t.yaml:2:1: tab in the indentation; YAML allows only spaces"),
        (
            "a: 1\n---\nb: 2\n",
            ("t.yaml:2:1: second document; a spec is a single document (remove the `---`)"),
        ),
        ("a:\n", "t.yaml:1:1: a: has no value; write one or remove the key"),
        ("a: [x, ~]\n", "t.yaml:1:8: a[1]: has no value; write one or remove the key"),
        (
            "a: !!python/object/apply:os.system [ls]\n",
            "t.yaml:1:4: a: YAML tags are not allowed: remove !!python/object/apply:os.system",
        ),
        ("a: !secret x\n", "t.yaml:1:4: a: YAML tags are not allowed: remove !secret"),
        ("a: !!int 3\n", "t.yaml:1:4: a: YAML tags are not allowed: remove !!int"),
        ("? [a, b]\n: 1\n", "t.yaml:1:3: a key must be a plain word"),
        ("'': 1\n", "t.yaml:1:1: empty key"),
        ("a: *nowhere\n", "t.yaml:1:4: not valid YAML: found undefined alias 'nowhere'"),
        (
            "a: [1, 2\n",
            (
                "t.yaml:2:1: not valid YAML: expected ',' or ']', but got '<stream end>'"
                " (while parsing a flow sequence)"
            ),
        ),
        ("a: b: c\n", "t.yaml:1:5: not valid YAML: mapping values are not allowed here"),
        ("a: \x07\n", "t.yaml:1:4: character U+0007 is not allowed"),
        ("<<: 3\n", "t.yaml:1:5: `<<` needs a mapping: an alias such as *base"),
        (
            'a: "x\\0y"\n',
            (
                "t.yaml:1:1: a: contains a NUL or half of a surrogate pair, which cannot be passed "
                "to a process"
            ),
        ),
        (
            'a: "\\uD800"\n',
            (
                "t.yaml:1:1: a: contains a NUL or half of a surrogate pair, which cannot be passed "
                "to a process"
            ),
        ),
        ("a: &a [*a]\n", "t.yaml:1:4: a[0]: an alias that contains itself: this is not a job spec"),
        ("[" * 5000, "t.yaml:1:1: nested too deeply"),
    ],
)
def test_refused_texts(text: str, expected: str) -> None:
    assert problems(text) == [expected]


def test_escapes_beyond_unicode_are_an_error_not_a_crash() -> None:
    (problem,) = problems('a: "\\UFFFFFFFF"\n')
    assert problem.startswith("t.yaml:1:1: not valid YAML: ")


def test_a_text_of_more_than_a_mebibyte() -> None:
    (problem,) = problems("#" * (MAX_BYTES + 1))
    assert problem == "t.yaml:1:1: is larger than 1 MiB: this is not a job spec"


@pytest.mark.timeout(20)
def test_aliases_cannot_unfold_without_end() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert any("too many or too deeply" in problem for problem in problems("\n".join(lines)))


@pytest.mark.timeout(20)
def test_merges_cannot_unfold_without_end() -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    assert any("too many or too deeply" in problem for problem in problems("\n".join(lines)))


def test_a_byte_order_mark_is_no_content() -> None:
    assert read("\ufeffa: x\n") == {"a": "x"}


def test_crlf_line_ends() -> None:
    tree = tree_from_text("a: x\r\nb: y\r\n", "t.yaml")
    assert tree.value == {"a": "x", "b": "y"}
    assert tree.position(("b",)) == (2, 1)


def test_values_from_python() -> None:
    from pathlib import PurePosixPath

    tree = tree_from_mapping({"a": (1, "x"), "p": PurePosixPath("/x")}, "spec")
    assert tree.value == {"a": [1, "x"], "p": "/x"}
    bad = tree_from_mapping({"a": None, 3: 1, "b": object(), "c": "\0"}, "spec")
    assert [str(problem) for problem in bad.sorted_problems()] == [
        "spec: a key must be text, not 3",
        "spec: a: has no value; write one or remove the key",
        "spec: b: values of type object are not supported",
        "spec: c: contains a NUL or half of a surrogate pair, which cannot be passed to a process",
    ]


def unfolding(depth: int) -> str:
    """Aliases in aliases: ten times the values with each line."""
    rows = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, depth)]
    return "\n".join(["a0: &a0 [x]", *rows])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (unfolding(9), "more than 100000 values"),
        ("a: &a {b: *a}", "nested too deeply"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: " + "[" * 60 + "]" * 60, "nested too deeply"),
        ("a: " + "9" * 5000, "not valid YAML"),
        ("a: 2001-99-99", "not valid YAML"),
        ("a: !!python/object:os.system x", "not valid YAML"),
        ("? [a]\n: b", "not valid YAML"),
        ("#" * (1 << 20) + "x", "larger than 1 MiB"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_a_hostile_document_is_an_error_within_limits(text: str, why: str) -> None:
    with pytest.raises(BadSpec, match=why) as caught:
        plain_document(text, "job.yaml")
    assert caught.value.message.startswith("job.yaml ")


def test_a_document_is_read_as_pyyaml_does() -> None:
    assert plain_document("a: &x [1, yes, null]\nb: *x\n", "f") == {"a": [1, True, None]} | {
        "b": [1, True, None]
    }
    assert plain_document("# nothing\n", "f") is None
