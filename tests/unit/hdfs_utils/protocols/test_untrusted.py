"""Foreign bytes are bounded and typed, and end in one error."""

from __future__ import annotations

import contextlib
import gc
import gzip
import io
import json
import math
import re
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hdfs_utils import connect
from hdfs_utils.errors import CorruptData, MalformedData
from hdfs_utils.protocols.untrusted import (
    INT64,
    Record,
    at_path,
    decode_json,
    decode_record,
    decompress,
    read_at_most,
    shown,
)

MIB = 1 << 20


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("value", [None, 0, -1.5, INT64, -INT64 - 1, "ä\U0001f600", [], {"a": [1]}])
def test_json_is_decoded(value: object) -> None:
    assert decode_json(json.dumps(value).encode(), max_bytes=100) == value
    assert decode_json(json.dumps(value, ensure_ascii=False).encode(), max_bytes=100) == value


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not JSON: Expecting value at character 0"),
        (b"{}{}", "Extra data"),
        (b'{"a":1,"a":2}', "a key occurs twice"),
        (b"\xff", "no UTF-8"),
        ('"ä"'.encode("utf-16"), "no UTF-8"),
        (b'"\xed\xa0\x80"', "no UTF-8"),
        (b'["\\ud800"]', "half a surrogate pair"),
        (b'{"\\uDCff":0}', "half a surrogate pair"),
        (b"NaN", "not finite"),
        (b"[-Infinity]", "not finite"),
        (b"1e400", "not finite"),
        (b"-1e400", "not finite"),
        (b"9223372036854775808", "more than 64 bits"),
        (b"9" * 99, "more than 64 bits"),
        (b'"\x1b"', "Invalid control character"),
        (b"1" * 101, "longer than 100 bytes"),
        (nested(40), "nested deeper than 32"),
        (b'{"a":' * 16 + b"[" * 17, "not JSON"),
    ],
)
def test_what_is_not_such_json(data: bytes, told: str) -> None:
    with pytest.raises(MalformedData, match=re.escape(told)):
        decode_json(data, max_bytes=100)


def test_the_error_is_one_for_those_who_know_corrupt_data() -> None:
    with pytest.raises(CorruptData):
        decode_json(b"?", max_bytes=1)


def test_depth_is_counted_exactly_and_the_parser_survives_any() -> None:
    assert decode_json(nested(32), max_bytes=64) is not None
    assert decode_json(b'"' + nested(40) + b'"', max_bytes=100) == nested(40).decode()
    with pytest.raises(MalformedData, match="nested deeper than 32"):
        decode_json(nested(33), max_bytes=66)
    with pytest.raises(MalformedData, match="nested deeper than 3"):
        decode_json(b'{"a":{"b":[{}]}}', max_bytes=66, max_depth=3)
    for opening in (b"[", b'{"a":', b'[{"a":'):
        with pytest.raises(MalformedData):
            decode_json(opening * 300_000, max_bytes=4 * MIB)


def test_a_users_own_numbers_are_taken_where_nothing_is_counted_with_them() -> None:
    data = b"[NaN,1e400,%d]" % (1 << 127)
    nan, infinity, state = decode_json(data, max_bytes=100, is_lenient=True)
    assert math.isnan(nan)
    assert math.isinf(infinity)
    assert state == 1 << 127
    assert decode_json(b'{"a":1,"a":2}', max_bytes=100, is_lenient=True) == {"a": 2}
    with pytest.raises(MalformedData, match="more than 1000 digits"):
        decode_json(b"9" * 1001, max_bytes=2000, is_lenient=True)


def test_half_a_surrogate_pair_is_no_text_of_a_record() -> None:
    found = Record(decode_json(b'{"x":"\\ud800","y":["\\udfff"]}', max_bytes=99, is_lenient=True))
    with pytest.raises(MalformedData, match="halves of surrogate pairs"):
        found.text("x")
    with pytest.raises(MalformedData, match="halves of surrogate pairs"):
        found.texts("y", max_count=1)


def test_a_message_quotes_little_and_nothing_that_a_terminal_obeys() -> None:
    with pytest.raises(MalformedData) as caught:
        decode_json(b"\x1b]52;c;" + b"x" * MIB, max_bytes=2 * MIB)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 200
    assert shown("\x9b\u202e" * 99).isascii()
    assert len(shown("\U0001f600" * 99)) < 200


@pytest.mark.parametrize("piece", [b"[],", b"{},", b'{"a":1},', b'"ab",', b'"\\u0416\\u0416",'])
def test_memory_is_bounded_by_the_bytes(piece: bytes) -> None:
    data = b"[" + piece * (MIB // len(piece)) + b"0]"
    tracemalloc.start()
    try:
        decode_json(data, max_bytes=len(data))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * len(data)


# ---- compressed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("end", [b"]", b"x"])
def test_the_garbage_collector_is_as_it_was_before(end: bytes, collects: bool) -> None:
    """It rests while a large document is parsed."""
    collections = list[str]()

    def watched(phase: str, _info: dict[str, int]) -> None:
        collections.append(phase)

    gc.callbacks.append(watched)
    (gc.enable if collects else gc.disable)()
    try:
        with contextlib.suppress(MalformedData):
            assert len(decode_json(b"[" + b"[]," * MIB + b"[]" + end, max_bytes=4 * MIB)) > MIB
        assert gc.isenabled() == collects
    finally:
        gc.callbacks.remove(watched)
        gc.enable()
    # It makes up for it afterwards; else it would run after each 700 of a million lists.
    assert len(collections) < 100


@pytest.mark.parametrize("pack", [zlib.compress, gzip.compress])
def test_zlib_and_gzip_are_unpacked_up_to_the_limit(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"x" * 1000)
    assert decompress(packed, max_bytes=1000) == b"x" * 1000
    assert decompress(pack(b""), max_bytes=0) == b""
    with pytest.raises(MalformedData, match="unpacks to more than 999 bytes"):
        decompress(packed, max_bytes=999)
    with pytest.raises(MalformedData, match="cut off"):
        decompress(packed[:-1], max_bytes=1000)
    with pytest.raises(MalformedData, match="something follows"):
        decompress(packed + packed, max_bytes=1000)
    with pytest.raises(MalformedData, match="cannot be unpacked"):
        decompress(b"nothing packed", max_bytes=1000)


def test_a_bomb_takes_no_more_memory_than_allowed() -> None:
    bomb = zlib.compress(bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(MalformedData):
            decompress(bomb, max_bytes=MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * MIB


def test_a_stream_is_read_up_to_the_limit() -> None:
    assert read_at_most(io.BytesIO(b"1234"), 4) == b"1234"
    with pytest.raises(MalformedData, match="longer than 3 bytes"):
        read_at_most(io.BytesIO(b"1234"), 3)


def test_a_file_is_read_up_to_the_limit_and_named(tmp_path: Path) -> None:
    fs, path = connect("file:///"), tmp_path / "entries.json"
    path.write_bytes(b"1234")
    assert fs.read_bytes(str(path), max_bytes=4) == b"1234"
    with pytest.raises(MalformedData, match=f"read {path}: longer than 3 bytes"):
        fs.read_bytes(str(path), max_bytes=3)


def test_the_error_of_a_block_names_its_file() -> None:
    with pytest.raises(MalformedData, match="load /a: not JSON"), at_path("/a", "load"):
        decode_json(b"?", max_bytes=9)


# ---- fields -------------------------------------------------------------------------------------

PLAIN = {
    "text": "yes", "integer": 3, "number": 2.5, "flag": True, "null": None, "empty": [],
    "texts": ["a", "b"], "integers": [1, 2], "record": {"inner": {"x": 1}}, "records": [{"x": 1}],
}  # fmt: skip


def record() -> Record:
    return decode_record(json.dumps(PLAIN).encode(), max_bytes=1000)


def test_fields_are_asked_for_by_type() -> None:
    found = record()
    assert found.text("text", pattern=re.compile("[yes]+")) == "yes"
    assert found.integer("integer", least=3, most=3) == 3
    assert found.number("integer") == 3.0
    assert found.number("number", least=2.5, most=2.5) == 2.5
    assert found.flag("flag") is True
    assert found.texts("texts", max_count=2) == ("a", "b")
    assert found.integers("integers", max_count=2) == (1, 2)
    assert found.items("empty", max_count=0) == []
    assert found.record("record").record("inner").integer("x") == 1
    assert [each.integer("x") for each in found.records("records", max_count=1)] == [1]
    assert "text" in found
    assert "null" not in found
    assert set(found) == set(PLAIN)
    assert len(found) == len(PLAIN)


def test_a_missing_field_has_its_default() -> None:
    found = record()
    assert found.text("null", default="") == ""
    assert found.integer("none", default=0) == 0
    assert found.number("none", default=0.0) == 0.0
    assert found.flag("none", default=False) is False
    assert found.texts("none", max_count=0, default=()) == ()
    assert found.records("none", max_count=0, default=()) == []


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda r: r.text("none"), "none is missing"),
        (lambda r: r.text("null"), "null is missing"),
        (lambda r: r.text("integer"), "integer has to be a text, not 3"),
        (lambda r: r.text("text", max_length=2), "text has to be a text of at most 2 characters"),
        (lambda r: r.text("text", pattern=re.compile("y")), "text has to be a text like y"),
        (lambda r: r.integer("number"), "number has to be an integer"),
        (lambda r: r.integer("flag"), "flag has to be an integer"),
        (lambda r: r.integer("integer", most=2), "integer has to be an integer of 0 to 2, not 3"),
        (lambda r: r.integer("integer", least=4), "integer has to be an integer of 4"),
        (lambda r: r.number("flag"), "flag has to be a number"),
        (lambda r: r.number("text"), "text has to be a number"),
        (lambda r: r.number("number", most=2), "number has to be a number"),
        (lambda r: r.flag("integer"), "integer has to be true or false"),
        (lambda r: r.items("record", max_count=9), "record has to be an array of at most 9"),
        (lambda r: r.items("texts", max_count=1), "texts has to be an array of at most 1"),
        (lambda r: r.texts("integers", max_count=9), "integers has to be texts, not 1"),
        (lambda r: r.texts("texts", max_count=9, max_length=0), "at most 0 characters"),
        (lambda r: r.integers("texts", max_count=9), "texts has to be integers"),
        (lambda r: r.integers("integers", max_count=9, most=1), "integers has to be integers"),
        (lambda r: r.record("texts"), "texts is not an object: an array"),
        (lambda r: r.record("record", max_count=0), "record has to be an object of at most 0"),
        (lambda r: r.record("record").record("inner").text("x"), "record.inner.x has to be a text"),
        (lambda r: r.records("records", max_count=9)[0].text("x"), r"records[0].x has to be"),
        (lambda r: r.records("texts", max_count=9), "texts[0] is not an object"),
    ],
)
def test_a_field_of_another_type_or_range(ask: Callable[[Record], Any], told: str) -> None:
    with pytest.raises(MalformedData, match=re.escape(told)):
        ask(record())


def test_nan_is_within_no_range() -> None:
    found = Record(decode_json(b'{"x":NaN}', max_bytes=99, is_lenient=True))
    with pytest.raises(MalformedData):
        found.number("x")


def test_an_object_is_needed() -> None:
    with pytest.raises(MalformedData, match="it is not an object: an array"):
        decode_record(b"[]", max_bytes=9)


def test_a_foreign_key_is_quoted_like_a_foreign_value() -> None:
    found = Record({"\x1b[2J": "x"})
    with pytest.raises(MalformedData) as caught:
        found.integer("\x1b[2J")
    assert str(caught.value).isprintable()
