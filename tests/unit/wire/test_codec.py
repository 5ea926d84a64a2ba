"""Foreign bytes are a value of the kind, or WireMismatch; older records are read as well."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from yarnam.core.model.events import CancelRequested, Event
from yarnam.core.model.ids import NodeId
from yarnam.core.model.job_status import OutputStatus, TaskStatus
from yarnam.core.model.plans import PlacementPlan, Reason
from yarnam.core.model.resources import Resources
from yarnam.core.model.tickets import SUSPENDED, Demand, Ticket
from yarnam.errors import WireMismatch
from yarnam.wire.codec import decode, decode_event, encode

TICKET = Ticket(
    1, "application_1_0001", "train", "root.gpu", (Demand(Resources(4096, 2, 8), 4),), 1000.5,
    duration_s=60.0, excluded=(NodeId("gpu-1"),),
)  # fmt: skip


def with_field(**fields: object) -> bytes:
    return json.dumps({**json.loads(encode(TICKET)), **fields}).encode()


def test_there_and_back() -> None:
    assert decode(encode(TICKET), Ticket) == TICKET
    assert decode(with_field(taken_at_s=1000), Ticket).taken_at_s == 1000.0
    assert decode(with_field(from_a_newer_version=1), Ticket) == TICKET


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 3000,
        b'{"demands":' * 3000,
        with_field(taken_at_s=float("nan")),
        with_field(taken_at_s=float("inf")),
        with_field(taken_at_s=1).replace(b": 1,", b": 1e400,", 1),
        with_field(number=1 << 64),
        with_field(number="1"),
        with_field(number=True),
        with_field(number=1.5),
        with_field(taken_at_s="nan"),
        with_field(is_acquiring="no"),
        with_field(job=5),
        with_field(job=["application"]),
        with_field(demands=5),
        with_field(demands={"a": 1}),
        with_field(name="\ud800"),
        encode(TICKET)[:-1],
        b"\xff" + encode(TICKET),
        b"",
    ],
)
def test_what_is_no_ticket(data: bytes) -> None:
    with pytest.raises(WireMismatch):
        decode(data, Ticket)


def test_a_limit_is_kept() -> None:
    assert decode(encode(TICKET), Ticket, max_bytes=4096) == TICKET
    with pytest.raises(WireMismatch, match="longer than 100 bytes"):
        decode(encode(TICKET), Ticket, max_bytes=100)


@pytest.mark.parametrize("tag", [None, 5, ["JobStarted"], {"t": "JobStarted"}, "NoSuchEvent"])
def test_what_is_no_event(tag: object) -> None:
    for plain in (tag, {"t": tag}):
        with pytest.raises(WireMismatch):
            decode_event(json.dumps(plain).encode())


def test_a_message_is_short_and_printable() -> None:
    names = ["\x1b]52;c;x" * 1000] * 1000
    with pytest.raises(WireMismatch) as caught:
        decode(with_field(demands=names, job=names, name={"\x1b": 1}), Ticket)
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 2000


def test_the_union_is_not_instantiated_from_a_class_name() -> None:
    with pytest.raises(WireMismatch):
        decode(b'"JobStarted"', Event)  # type: ignore[arg-type]


TARGET = {
    "service": "ps-0g-pin0", "role": "ps", "level": 0,
    "resources": {"memory_mib": 1024, "vcores": 1, "gpus": 0},
    "nodes": ["n1"], "place": "pin0",
}  # fmt: skip

PLAN = {
    "rungs": [
        {
            "number": 0, "level": 0, "asks": [{"target": TARGET, "count": 1}], "score": 1.0,
            "reason": "", "apart": [["ps", "worker"]],
        }
    ],
    "seats": [TARGET],
}  # fmt: skip


def test_a_plan_keeps_what_it_had_under_its_former_keys() -> None:
    plan = decode(json.dumps(PLAN).encode(), PlacementPlan)
    assert plan.rungs[0].anti_affinity == (("ps", "worker"),)
    assert plan.rungs[0].asks[0].target.domain == "pin0"
    assert [target.domain for target in plan.extra_targets] == ["pin0"]
    assert decode(encode(plan), PlacementPlan) == plan


def test_an_output_has_its_path_under_the_former_key() -> None:
    assert decode(b'{"place": "/out", "files": 3}', OutputStatus) == OutputStatus("/out", 3)


@pytest.mark.parametrize("key", ["aside", "blocked_reason"])
def test_jobs_of_an_older_and_a_newer_version_read_why_a_ticket_is_blocked(key: str) -> None:
    blocked = replace(TICKET, blocked_reason=SUSPENDED)
    assert json.loads(encode(blocked))["aside"] == SUSPENDED
    plain = {k: v for k, v in json.loads(encode(TICKET)).items() if k != "aside"}
    assert decode(json.dumps({**plain, key: SUSPENDED}).encode(), Ticket) == blocked


@pytest.mark.parametrize(
    ("former", "today"),
    [
        ("no-rack-has-room", Reason.NO_RACK_FITS),
        ("no-gpu-model-has-room", Reason.NO_GPU_MODEL_FITS),
        ("queue-full", Reason.QUEUE_FULL),
    ],
)
def test_a_reason_is_read_under_its_former_value(former: str, today: Reason) -> None:
    assert decode(json.dumps(former).encode(), Reason) is today


def test_what_is_stored_does_nothing_to_a_terminal_and_is_read_again() -> None:
    reason = "Größe \x1b[2J \x9b3A \u202e \U000e0041 \n"
    data = encode(CancelRequested(1.0, "me", reason), Event)
    assert data.decode().isprintable()
    assert "Größe" in data.decode()
    assert decode_event(data) == CancelRequested(1.0, "me", reason)
    # A name from this machine's disk may be no Unicode; readers refuse half a pair.
    half = encode(CancelRequested(1.0, "me", "\udcff"), Event)
    assert decode_event(half) == CancelRequested(1.0, "me", "?")


@pytest.mark.parametrize("loss", [0.5, 3, float("inf"), float("-inf")])
def test_a_loss_that_has_gone_astray_is_shown(loss: float) -> None:
    status = TaskStatus("worker", "a1.worker.0", "started", loss=loss, metrics=(("loss", loss),))
    data = encode(status)
    assert decode(data, TaskStatus) == status
    json.loads(data, parse_constant=pytest.fail)  # as any other reader of JSON would


def test_nan_is_shown() -> None:
    nan = float("nan")
    data = encode(TaskStatus("worker", "a", "started", loss=nan, metrics=(("loss", nan),)))
    found = decode(data, TaskStatus)
    assert str(found.loss) == "nan"
    assert str(found.metrics[0][1]) == "nan"
    with pytest.raises(WireMismatch):
        decode(data.replace(b'"nan"', b'"1.5"'), TaskStatus)
