from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnam.spec.values.units import (
    DURATION_PATTERN,
    MAX_DURATION_S,
    MAX_SIZE_MIB,
    SIZE_PATTERN,
    format_duration,
    format_size,
    parse_duration_s,
    parse_size_mib,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10min", 600),
        ("10m", 600),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1h 30min", 5400),
        ("1d2h3min4s5ms", 93784.005),
        ("500ms", 0.5),
        ("1.5h", 5400),
        ("0s", 0),
        ("8 s", 8),
    ],
)
def test_durations_in_human_units(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds
    assert re.search(DURATION_PATTERN, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("90", "a duration needs a unit: 90s, 90min or 90h"),
        ("-5", "a duration needs a unit: -5s, -5min or -5h"),
        ("", "'' is not a duration such as 90s, 10min or 1h30m"),
        ("-5s", "'-5s' is not a duration such as 90s, 10min or 1h30m"),
        ("1:30", "'1:30' is not a duration such as 90s, 10min or 1h30m"),
        ("30m1h", "'30m1h': use each unit once, largest first, as in 1h30m"),
        ("1m1min", "'1m1min': use each unit once, largest first, as in 1h30m"),
        ("90sec", "'sec' is not a duration unit; did you mean 90s?"),
        ("2H", "'H' is not a duration unit; did you mean 2h?"),
        ("3weeks", "'weeks' is not a duration unit; units: d, h, min, s, ms"),
        ("9000d", "9000d is longer than ten years"),
        ("infs", "'infs' is not a duration such as 90s, 10min or 1h30m"),
        ("٣s", "'٣s' is not a duration such as 90s, 10min or 1h30m"),
    ],
)
def test_bad_durations_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration_s(text)
    assert str(caught.value) == message
    assert not re.search(DURATION_PATTERN, text) or "ten years" in message


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("512MiB", 512),
        ("8GiB", 8192),
        ("16g", 16384),
        ("16G", 16384),
        ("512m", 512),
        ("8GB", 7630),
        ("1.5GiB", 1536),
        ("1TiB", 1024**2),
        ("1KiB", 1),
        ("1048577k", 1025),
        ("8 GiB", 8192),
    ],
)
def test_sizes_in_human_units(text: str, mib: int) -> None:
    assert parse_size_mib(text) == mib
    assert re.search(SIZE_PATTERN, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8", "a size needs a unit: 8GiB or 8MiB"),
        ("8gib", "'gib' is not a size unit; did you mean 8GiB?"),
        ("8Gb", "'Gb' is not a size unit; did you mean 8GB?"),
        ("8Gi", "'Gi' is not a size unit; did you mean 8GiB?"),
        (
            "8 parsecs",
            "'parsecs' is not a size unit; units: KiB, MiB, GiB, TiB, KB, MB, GB, TB",
        ),
        ("GiB", "'GiB' is not a size such as 512MiB or 8GiB"),
        ("-8GiB", "'-8GiB' is not a size such as 512MiB or 8GiB"),
        ("2000TiB", "2000TiB is more than 1PiB"),
    ],
)
def test_bad_sizes_say_what_to_write(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_size_mib(text)
    assert str(caught.value) == message


@given(st.integers(0, int(MAX_DURATION_S * 1000)))
def test_durations_round_trip(milliseconds: int) -> None:
    text = format_duration(milliseconds / 1000)
    assert parse_duration_s(text) == milliseconds / 1000
    assert re.search(DURATION_PATTERN, text)


@given(st.integers(0, MAX_SIZE_MIB))
def test_sizes_round_trip(mib: int) -> None:
    text = format_size(mib)
    assert parse_size_mib(text) == mib
    assert re.search(SIZE_PATTERN, text)


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_clear_error(text: str) -> None:
    for parse in (parse_duration_s, parse_size_mib):
        try:
            value, message = parse(text), "fine"
        except ValueError as error:
            value, message = 0, str(error)
        assert value >= 0
        assert message
