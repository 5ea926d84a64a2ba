"""The indices of an array, and what each member differs in."""

from __future__ import annotations

import pytest

from tests.unit.client.world import job_spec
from yarnam.client.functions.array_members import (
    MAX_MEMBERS,
    ArrayIndices,
    member_of,
    parse_indices,
    tag_of_array,
)
from yarnam.core.model.job_spec import CheckpointSpec, DataInput
from yarnam.errors import BadSpec, UsageError

ID = "0123456789ab"


@pytest.mark.parametrize(
    ("text", "indices", "most"),
    [
        ("0-3", (0, 1, 2, 3), 0),
        ("7", (7,), 0),
        ("0-9%4", tuple(range(10)), 4),
        ("1,5, 7", (1, 5, 7), 0),
        ("0-20:5%2", (0, 5, 10, 15, 20), 2),
        ("3,1-2", (3, 1, 2), 0),
        ("0-2,1-3", (0, 1, 2, 3), 0),
        (f"0-{MAX_MEMBERS - 1}", tuple(range(MAX_MEMBERS)), 0),
    ],
)
def test_indices(text: str, indices: tuple[int, ...], most: int) -> None:
    assert parse_indices(text) == ArrayIndices(indices, most)


@pytest.mark.parametrize(
    "text",
    ["", "a", "-1", "3-1", "0-9%", "0-9%0", "0-9%x", "0-9:0", "0-9%4%4", "1,,2", "٣",
     f"0-{MAX_MEMBERS}", "0-999999999", "0-1e3", "0-9%²"],
)  # fmt: skip
def test_what_names_no_indices_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_indices(text)


def test_a_member_has_its_index_wherever_the_spec_says() -> None:
    job = job_spec(
        output="/out/${YARNAM_ARRAY_INDEX}",
        checkpoint=CheckpointSpec("/ckpt/${YARNAM_ARRAY_INDEX}"),
        inputs=(DataInput("part", "/data/part-${YARNAM_ARRAY_INDEX}"),),
        env=(("SEED", "1${YARNAM_ARRAY_INDEX}"),),
        tags=("sweep",),
        idempotency_key="run",
    )
    member = member_of(job, ID, ArrayIndices((4, 8)), 8)
    assert (member.name, member.output, member.checkpoint.directory) == (
        "hello-8", "/out/8", "/ckpt/8",
    )  # fmt: skip
    assert member.inputs[0].uri == "/data/part-8"
    assert dict(member.env) == {
        "SEED": "18",
        "YARNAM_ARRAY_INDEX": "8",
        "YARNAM_ARRAY_ID": ID,
        "YARNAM_ARRAY_SIZE": "2",
    }
    assert member.tags == ("sweep", f"yarnam-array-{ID}")
    assert member.idempotency_key == "run/8"
    assert member.roles is job.roles, "what has no placeholder is as it was"


def test_a_name_with_the_index_is_left_as_it_is() -> None:
    job = job_spec(name="seed-${YARNAM_ARRAY_INDEX}")
    assert member_of(job, ID, ArrayIndices((3,)), 3).name == "seed-3"


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("data.outputs", {"output": "/out"}),
        ("checkpoint.directory", {"checkpoint": CheckpointSpec("/ckpt/")}),
    ],
)
def test_members_may_not_write_over_each_other(what: str, changes: dict[str, object]) -> None:
    with pytest.raises(BadSpec, match=what) as caught:
        member_of(job_spec(**changes), ID, ArrayIndices((0, 1)), 0)
    assert "/${YARNAM_ARRAY_INDEX}" in caught.value.hint
    assert member_of(job_spec(**changes), ID, ArrayIndices((0,)), 0)


@pytest.mark.parametrize("text", ["", "last", "0123456789AB", "0123456789ab0", "*"])
def test_an_id_is_an_id(text: str) -> None:
    with pytest.raises(UsageError, match="not the id of an array"):
        tag_of_array(text)
