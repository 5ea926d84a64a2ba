"""The SDK in a pre-run: it says so, and ends the program after some steps."""

from __future__ import annotations

import pytest

from tests.unit.train.sdk_settings import set_sdk
from yarnam import train
from yarnam.train._job import pre_run_end, stop


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pre_run_end, "_reported", [0])
    monkeypatch.setattr(stop, "_watch", stop._Watch())
    monkeypatch.delenv("YARNAM_SDK", raising=False)
    monkeypatch.delenv("YARNAM_STOP_FILE", raising=False)


def test_a_usual_run_is_none_and_goes_on() -> None:
    assert not train.is_pre_run()
    for step in range(50):
        train.report(step=step)
    assert not train.should_stop()


def test_it_is_asked_to_stop_after_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    set_sdk(monkeypatch, pre_run_steps=3)
    assert train.is_pre_run()
    train.report(loss=0.5)
    for step in (1, 2):
        train.report(step=step)
        assert not train.should_stop()
    train.report(step=3)
    assert train.should_stop()
    request = train.stop_request()
    assert request is not None
    assert request.reason == "the pre-run has done its 3 steps"


def test_a_program_that_does_not_ask_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_sdk(monkeypatch, pre_run_steps=2)
    for step in (1, 2, 3):
        train.report(step=step)
    with pytest.raises(SystemExit) as ended:
        train.report(step=4)
    assert ended.value.code == 0
    assert "yarnam: the pre-run ends: 4 steps were reported" in capsys.readouterr().err
