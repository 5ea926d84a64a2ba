"""Whatever stands in a spec, the answer is a job or BadSpec."""

from __future__ import annotations

import copy
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from yarnam.core.frameworks.registry import NAMES
from yarnam.core.model.job_spec import JobSpec
from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_dict, parse_spec_text
from yarnam.spec.export.starter import template
from yarnam.spec.problems import keys_of
from yarnam.spec.sections.document import Document

from .test_job_specs import FULL

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=True),
    st.text(max_size=12),
    st.sampled_from(["default", "8", "8GiB", "90s", "per-gpu", "jax", "/a", "hdfs:///a", "a", ""]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.text(max_size=8), st.sampled_from(keys_of(Document))), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
PIECES = st.sampled_from(
    [
        *"#&*!|>'\"%@`?:{}[],-\t\n\r\0\ufeff\x85\u2028é",
        " ",
        "  ",
        "\n  ",
        "\n- ",
        "<<: *a",
        "&a ",
        "*a",
        "!!python/none",
        "---",
        "...",
        "%YAML 1.1",
        "yes",
        "~",
        "010",
        "1:30",
        "0x",
        "\\U",
        "${x}",
        "gpus",
        "roles:",
        "\ud800",
    ]
)


def outcome(text: str) -> JobSpec | BadSpec:
    try:
        return parse_spec_text(text, "job.yaml", base_dir="/nowhere", environ={})
    except BadSpec as error:
        refusal = error
    assert refusal.problems
    assert all(problem.line >= 1 and problem.column >= 1 for problem in refusal.problems)
    assert all(str(problem).isprintable() for problem in refusal.problems)
    places = [(problem.line, problem.column) for problem in refusal.problems]
    assert places == sorted(places)
    return refusal


def outcome_of_mapping(mapping: Any) -> JobSpec | BadSpec:
    try:
        return parse_spec_dict(mapping, base_dir="/nowhere", environ={})
    except BadSpec as error:
        refusal = error
    assert refusal.problems
    assert not any(problem.line or problem.column for problem in refusal.problems)
    return refusal


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([FULL, *map(template, NAMES)]), st.data())
def test_random_edits_of_a_good_text(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        text = text[:start] + data.draw(PIECES) + text[end:]
    outcome(text)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below: list[tuple[Any, ...]] = [path] if path else []
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in pairs:
        below += paths_in(inner, (*path, key))
    return below


GOOD = yaml.safe_load(FULL)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from(paths_in(GOOD)), VALUES), min_size=1, max_size=4))
def test_random_values_at_the_keys_of_a_good_document(edits: list[tuple[Any, Any]]) -> None:
    document = copy.deepcopy(GOOD)
    for path, value in edits:
        holder = document
        try:
            for part in path[:-1]:
                holder = holder[part]
            holder[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier edit took this place away
    outcome_of_mapping(document)
    outcome(yaml.safe_dump(document, allow_unicode=True))


@settings(max_examples=150, deadline=None)
@given(st.one_of(VALUES, st.dictionaries(st.sampled_from(keys_of(Document)), VALUES)))
def test_any_document(value: Any) -> None:
    if isinstance(value, dict):
        outcome_of_mapping(value)
    outcome(yaml.safe_dump(value, allow_unicode=True))


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text(text: str) -> None:
    assert isinstance(outcome(text), BadSpec)
