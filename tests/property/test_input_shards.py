"""Each record is read exactly once in an epoch, whatever becomes of the gang in the middle of it.

The test plays a job: processes read records of their shares at their own pace, checkpoints keep
what all of them have read, the gang is killed, restarted and resized, files are put on the
blacklist. A record counts as read when the surviving history has it: what was read after the last
checkpoint is forgotten with the model that had learnt from it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yarnam.train._inputs.file_shares import (
    NOTHING_READ,
    InputFile,
    Merged,
    Partitioner,
    Progress,
    ReaderState,
    StatesMissing,
    in_order,
    merge_states,
    partition,
)

EPOCHS = 3

LENGTHS = st.lists(st.integers(0, 5000), min_size=1, max_size=25)


def files_of(lengths: list[int]) -> list[InputFile]:
    return [InputFile(f"part-{n:05}", length) for n, length in enumerate(lengths)]


@dataclass
class Reader:
    """One process: it reads its share record by record, as the SDK does."""

    game: Game
    state: ReaderState

    def todo(self) -> list[int]:
        state = self.state
        read = self.game.before.get(state.epoch, NOTHING_READ)
        mine = self.game.partitioner.share(
            state.epoch, state.share, state.shares, self.game.excluded(state.epoch), read
        )
        left = [number for number in mine if number not in state.own.done]
        return in_order(self.game.partitioner.files, left, str(state.epoch))

    def read_one(self) -> tuple[int, int, int] | None:
        """The next record as (epoch, file, record); None: all epochs are over."""
        while self.state.epoch < EPOCHS:
            state = self.state
            todo = self.todo()
            if not todo:
                self.state = ReaderState(
                    state.share, state.shares, state.first, state.epoch + 1, before=state.before
                )
                continue
            number = todo[0]
            base = self.game.before.get(state.epoch, NOTHING_READ)
            at = state.own.begun.get(number, base.begun.get(number, 0))
            own = state.own
            if at >= self.game.records[number]:
                begun = {n: r for n, r in own.begun.items() if n != number}
                own = Progress(own.done | {number}, begun)
                self._note(own)
                continue
            self._note(Progress(own.done, {**own.begun, number: at + 1}))
            return state.epoch, number, at
        return None

    def _note(self, own: Progress) -> None:
        s = self.state
        self.state = ReaderState(s.share, s.shares, s.first, s.epoch, own, s.before)


@dataclass
class Game:
    partitioner: Partitioner
    records: list[int]
    excluded_from: dict[int, int]
    """File number to the first epoch that leaves it out."""
    before: dict[int, Progress] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)
    seen: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    saved_seen: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    saved: list[ReaderState] = field(default_factory=list)

    def excluded(self, epoch: int) -> set[str]:
        return {
            self.partitioner.files[number].path
            for number, first in self.excluded_from.items()
            if epoch >= first
        }

    def start(self, shares: int) -> None:
        merged = merge_states(self.partitioner, self.saved, self.excluded)
        self.before = dict(merged.read)
        if not self.partitioner.is_shared:
            shares = 1
        self.readers = [Reader(self, merged.state(share, shares)) for share in range(shares)]

    def checkpoint(self) -> None:
        self.saved = [reader.state for reader in self.readers]
        self.saved_seen = Counter(self.seen)

    def crash(self, shares: int) -> None:
        self.seen = Counter(self.saved_seen)
        self.start(shares)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(0, 63), st.integers(1, 60)),
        st.tuples(st.just("checkpoint"), st.just(0), st.just(0)),
        st.tuples(st.just("crash"), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("resize"), st.integers(1, 6), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 9)), min_size=1, max_size=12),
    shares=st.integers(1, 6),
    steps=STEPS,
    is_fixed=st.booleans(),
    is_shared=st.booleans(),
    blacklist=st.dictionaries(st.integers(0, 11), st.integers(0, EPOCHS), max_size=4),
)
def test_each_record_is_read_exactly_once_in_an_epoch(
    sizes: list[tuple[int, int]],
    shares: int,
    steps: list[tuple[str, int, int]],
    is_fixed: bool,
    is_shared: bool,
    blacklist: dict[int, int],
) -> None:
    partitioner = Partitioner(files_of([length for length, _ in sizes]), is_fixed, is_shared)
    records = [count for _, count in sizes]
    bad = {number: epoch for number, epoch in blacklist.items() if number < len(records)}
    game = Game(partitioner, records, bad)
    game.start(shares)
    for what, one, two in steps:
        if what == "read":
            reader = game.readers[one % len(game.readers)]
            for _ in range(two):
                record = reader.read_one()
                if record is not None:
                    game.seen[record] += 1
        elif what == "checkpoint":
            game.checkpoint()
        elif what == "crash":
            game.crash(one)
        else:
            game.checkpoint()
            game.crash(one)
    for reader in game.readers:
        while (record := reader.read_one()) is not None:
            game.seen[record] += 1
    wanted = Counter(
        (epoch, number, record)
        for epoch in range(EPOCHS)
        for number, count in enumerate(records)
        if epoch < bad.get(number, EPOCHS)
        for record in range(count)
    )
    assert game.seen == wanted


@given(lengths=LENGTHS, shares=st.integers(1, 12), salt=st.text(max_size=3))
def test_dealing_is_complete_balanced_and_the_same_everywhere(
    lengths: list[int], shares: int, salt: str
) -> None:
    files = files_of(lengths)
    dealt = partition(files, range(len(files)), shares, salt)
    assert sorted(n for mine in dealt for n in mine) == list(range(len(files)))
    loads = [sum(files[n].length for n in mine) for mine in dealt]
    assert max(loads) <= sum(lengths) / shares + max(lengths)
    assert dealt == partition(files, reversed(range(len(files))), shares, salt)
    if len(files) >= shares and min(lengths) == max(lengths):
        assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@given(lengths=LENGTHS, shares=st.integers(1, 6), gone=st.sets(st.integers(0, 24)))
def test_fixed_shares_do_not_depend_on_what_is_left_out_or_on_the_epoch(
    lengths: list[int], shares: int, gone: set[int]
) -> None:
    """What a node has a copy of stays what its processes read."""
    partitioner = Partitioner(files_of(lengths), is_fixed=True)
    excluded = {f"part-{n:05}" for n in gone}
    for share in range(shares):
        whole = partitioner.share(0, share, shares)
        later = partitioner.share(7, share, shares, excluded)
        assert later == [n for n in whole if n not in gone]


def test_another_epoch_deals_files_of_one_size_anew() -> None:
    partitioner = Partitioner(files_of([1000] * 40))
    assert partitioner.share(0, 0, 4) != partitioner.share(1, 0, 4)


def test_states_of_some_processes_only_are_refused() -> None:
    partitioner = Partitioner(files_of([10] * 8))
    states = [ReaderState(share, 4) for share in (0, 2, 3)]
    with pytest.raises(StatesMissing, match="states of 4 processes are needed; missing: 1"):
        merge_states(partitioner, states, lambda _: ())
    with pytest.raises(StatesMissing, match="different sizes"):
        merge_states(partitioner, [ReaderState(0, 2), ReaderState(1, 3)], lambda _: ())


def test_nothing_saved_begins_at_the_beginning() -> None:
    assert merge_states(Partitioner(files_of([1])), [], lambda _: ()) == Merged(0, {})
