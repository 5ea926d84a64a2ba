"""What commands print for programs is JSON that every parser takes."""

from __future__ import annotations

import json
import math

import pytest

from yarnam.cli.rendering.console import print_json, print_json_line


@pytest.mark.parametrize("show", [print_json, print_json_line])
def test_a_diverged_loss_is_null(show: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(show)
    show({"loss": math.nan, "values": [("a", -math.inf), ("b", 1.5)]})
    text = capsys.readouterr().out
    assert json.loads(text) == {"loss": None, "values": [["a", None], ["b", 1.5]]}
    assert "NaN" not in text
    assert "Infinity" not in text
