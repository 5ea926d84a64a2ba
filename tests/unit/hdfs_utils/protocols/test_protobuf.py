"""The wire format against the protobuf package itself, and damage."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from hdfs_utils.protocols.protobuf import Message, message, read_varint, varint, zigzag


@given(st.integers(0, 2**64 - 1))
def test_a_varint_comes_back(value: int) -> None:
    encoded = varint(value)
    assert read_varint(encoded, 0) == (value, len(encoded))


@given(st.text(), st.integers(0, 2**31 - 1))
def test_it_is_what_protobuf_reads_and_writes(name: str, number: int) -> None:
    # FieldDescriptorProto: name = 1 (string), number = 3 (int32).
    theirs = FieldDescriptorProto.FromString(message((1, name), (3, number)))
    assert (theirs.name, theirs.number) == (name, number)
    ours = Message(theirs.SerializeToString())
    assert (ours.text(1), ours.number(3)) == (name, number)
    assert 2 not in ours
    assert ours.number(2, 7) == 7


def test_sint32_is_zigzag() -> None:
    assert [zigzag(n) for n in (0, -1, 1, -2, -3)] == [0, 1, 2, 3, 5]


@pytest.mark.parametrize(
    "data", [b"\x0a\x05ab", b"\x08", b"\x0b", b"\x0a\xff", b"\x08" + b"\x80" * 10 + b"\1"]
)
def test_damage_is_told(data: bytes) -> None:
    with pytest.raises(ValueError):
        Message(data)


def test_a_field_of_another_type_is_damage() -> None:
    """A NameNode that is none, or of another version."""
    found = Message(message((1, "text"), (2, 5)))
    with pytest.raises(ValueError, match="not a number"):
        found.number(1)
    with pytest.raises(ValueError, match="no bytes"):
        found.sub(2)
