"""Retention: what is kept by any policy, and a directory of checkpoints against a model."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hdfs_utils.checkpoints import Best, Checkpointer, Limits, Retention, Token, catalog
from hdfs_utils.checkpoints.catalog import CheckpointState
from hdfs_utils.checkpoints.format.layout import CheckpointName
from hdfs_utils.checkpoints.retention import RetentionCandidate, kept
from tests.fakes.files import MemoryFiles

losses = st.one_of(st.floats(-5, 5), st.just(math.inf))
bests = st.builds(
    Best, metric=st.just("loss"), mode=st.sampled_from(["min", "max"]), keep=st.integers(1, 3)
)
retentions = st.builds(
    Retention,
    keep=st.integers(1, 4),
    every=st.integers(0, 5),
    best=st.one_of(st.none(), bests),
)
wholes = st.lists(
    st.builds(
        RetentionCandidate,
        name=st.builds(
            CheckpointName,
            step=st.integers(0, 20),
            epoch=st.integers(1, 3),
            tag=st.sampled_from(["aaaaaaaa", "bbbbbbbb"]),
        ),
        metrics=st.dictionaries(st.just("loss"), st.one_of(losses, st.just(math.nan))),
    ),
    unique_by=lambda whole: whole.name,
    max_size=15,
)


@given(wholes, retentions)
def test_the_newest_stay_whatever_the_policy(
    found: list[RetentionCandidate], retention: Retention
) -> None:
    stays = kept(found, retention)
    names = {whole.name for whole in found}
    newest = sorted(names, key=lambda name: name.order)[-retention.keep :]
    assert set(newest) <= set(stays) <= names
    assert all(stays.values())


@given(wholes, retentions)
def test_asked_again_it_deletes_nothing_more(
    found: list[RetentionCandidate], retention: Retention
) -> None:
    stays = kept(found, retention)
    left = [whole for whole in found if whole.name in stays]
    assert set(kept(left, retention)) == set(stays)


@given(wholes, retentions)
def test_one_of_each_stretch_and_the_best_stay(
    found: list[RetentionCandidate], retention: Retention
) -> None:
    stays = kept(found, retention)
    if retention.every:
        stretches = {whole.name.step // retention.every for whole in found}
        assert {name.step // retention.every for name in stays} == stretches
    if retention.best:
        values = [
            w.metrics["loss"] for w in found if not math.isnan(w.metrics.get("loss", math.nan))
        ]
        held = [w.metrics["loss"] for w in found if w.name in stays and "loss" in w.metrics]
        if values:
            best = min(values) if retention.best.mode == "min" else max(values)
            assert best in held


class ADirectory(RuleBasedStateMachine):
    """Attempts that save, fail half-way, damage, restore and read, on one directory."""

    def __init__(self) -> None:
        super().__init__()
        self.fs = MemoryFiles()
        self.attempt = 0
        self.one: Checkpointer
        self.retention = Retention()
        self.contents: dict[str, int] = {}
        self.damaged: set[str] = set()
        self.pins: list[tuple[str, Any]] = []
        self.step = 0

    @initialize(retention=retentions)
    def begin(self, retention: Retention) -> None:
        self.retention = retention
        self.next_attempt()

    @rule()
    def next_attempt(self) -> None:
        self.attempt += 1
        self.one = Checkpointer(
            "/c",
            token=Token("job", (self.attempt,)),
            retention=self.retention,
            limits=Limits(patience_s=0.0),
            fs=self.fs,
            report=lambda _skipped: None,
        )

    @rule(steps=st.integers(0, 4), loss=losses.filter(math.isfinite))
    def save(self, steps: int, loss: float) -> None:
        self.step += steps
        value = len(self.contents)
        saved = self.one.save(self.step, {"w": b"%d" % value}, metrics={"loss": loss})
        assert saved is not None
        self.contents[saved.path] = value

    @rule()
    def leave_an_unfinished_save(self) -> None:
        name = CheckpointName(self.step, self.attempt, f"x{len(self.contents):07d}")
        self.fs.write_bytes(f"/c/{name}/shard-00000-of-00001", b"half", overwrite=True)

    def whole(self) -> list[str]:
        found = catalog.list_checkpoints(self.fs, "/c")
        return [
            f.path for f in found if f.state is CheckpointState.WHOLE and f.path not in self.damaged
        ]

    @precondition(lambda self: len(self.whole()) > 1)
    @rule()
    def damage_the_newest(self) -> None:
        path = self.whole()[0]
        shard = f"{path}/shard-00000-of-00001"
        data = self.fs.read_bytes(shard)
        self.fs.write_bytes(shard, bytes([data[0] ^ 1]) + data[1:], overwrite=True)
        self.damaged.add(path)

    @rule()
    def restore(self) -> None:
        whole = self.whole()
        self.next_attempt()
        found = self.one.load()
        if not whole:
            assert found is None
            return
        assert found is not None, "a whole one was there"
        assert found[0].path == whole[0]
        assert found[1] == {"w": b"%d" % self.contents[found[0].path]}
        self.step = found[0].step

    @precondition(lambda self: self.whole() and not self.pins)
    @rule(data=st.data())
    def begin_to_read(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(self.whole()))
        pin = catalog.pinned(self.fs, path)
        pin.__enter__()
        self.pins.append((path, pin))

    @precondition(lambda self: self.pins)
    @rule()
    def end_reading(self) -> None:
        self.pins.pop()[1].__exit__(None, None, None)

    @invariant()
    def who_is_read_is_there(self) -> None:
        for path, _ in self.pins:
            was_set_aside = path in self.damaged
            assert was_set_aside or self.fs.exists(f"{path}/manifest.json")

    @invariant()
    def a_whole_one_is_never_lost_for_nothing(self) -> None:
        if set(self.contents) - self.damaged:
            assert self.whole(), "the last whole one was deleted"


TestADirectory = ADirectory.TestCase
TestADirectory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
