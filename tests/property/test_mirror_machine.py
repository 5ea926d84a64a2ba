"""A mirror among writes, closes, renames, deletions, crashes and scans in any order: only what was
whole in the directory at one time is kept, and never an older save over a newer one."""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest

from yarnam.agent.machine import mirror_machine as mm
from yarnam.agent.machine.mirror_machine import FileVersion, KeptSet, Scan, ScannedFile

SAVES = (("model.pt", "weights.bin"), ("weights.bin",), ("model.pt",))
"""The files of each save, by kind of program."""

STEPS = 400


class Violation(AssertionError):
    """A rule of the mirror does not hold."""


class Save:
    """One file of one save while it is written."""

    def __init__(self, save: int, size: int) -> None:
        self.save, self.left = save, size


class MirrorWorld:
    """A program that saves files under the same names again and again, in pieces, and closes each;
    sometimes a piece takes long. Between two files of one save there is one scan at most. The
    format of one tells where it ends, that of the other does not."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.state = mm.MirrorState()
        self.now_s = 0.0
        self.inode = 0
        self.save = 0
        self.has_log = seed % 2 == 0
        self.names = SAVES[seed % len(SAVES)]
        self.todo: list[str] = []
        self.gap_scans = 0
        self.files: dict[str, tuple[int, FileVersion, bool, bool]] = {}
        """By name: the save, the version, whether it is open, and whether it is whole."""
        self.sending: tuple[tuple[ScannedFile, ...], dict[str, Any]] | None = None
        self.kept: list[int] = []
        self.is_dead = False

    def walk(self) -> None:
        for _ in range(STEPS):
            moves = [self._scan, self._write, self._write, self._log]
            if self.sending is not None:
                moves += [self._answer] * 2
            if self.dice.random() < 0.003:
                moves = [self._crash]
            self.dice.choice(moves)()
            if self.is_dead:
                break
        self._end()

    # ---- the program -------------------------------------------------------------------------

    def _touch(self, name: str, save: int, *, is_open: bool, is_whole: bool) -> None:
        old = self.files.get(name)
        self.inode += 1
        size = self.dice.choice((7, 8)) if old is None else old[1].size + 1
        self.files[name] = (save, FileVersion(size, self.inode, 1), is_open, is_whole)

    def _write(self) -> None:
        """A piece of a save; the program then goes on at once, or trains for a while."""
        if self.is_dead:
            return
        if not self.todo:
            if self.dice.random() < 0.9:
                self.now_s += 1.0
                return
            self.save += 1
            self.todo = list(self.names)
        name = self.todo[0]
        if self.dice.random() < 0.2:
            self.now_s += 11.0
            self._scan()
            return
        if self.dice.random() < 0.6:
            self._touch(name, self.save, is_open=True, is_whole=False)
            self.now_s += self.dice.choice((0.0, 1.0))
            return
        self._touch(name, self.save, is_open=False, is_whole=True)
        self.todo.pop(0)
        self.gap_scans = 0

    def _log(self) -> None:
        if self.has_log and not self.is_dead and self.dice.random() < 0.1:
            self._touch("notes.txt", 0, is_open=self.dice.random() < 0.5, is_whole=True)

    def _crash(self) -> None:
        """The kernel closes what is open, however far it has come."""
        self.is_dead = True
        self.todo = []
        for name, (save, version, _, is_whole) in self.files.items():
            self.files[name] = (save, version, False, is_whole)

    # ---- the mirror --------------------------------------------------------------------------

    def _scan(self, *, is_last: bool = False, ok: bool = False) -> bool:
        self.now_s += 2.0
        self.gap_scans += 1
        if 0 < len(self.todo) < len(self.names) and self.gap_scans > 1:
            self._touch(self.todo[0], self.save, is_open=True, is_whole=False)
        found = tuple(ScannedFile(n, v, is_open) for n, (_, v, is_open, _) in self.files.items())
        before = self.state
        self.state, files = mm.scanned(before, Scan(self.now_s, found, "", is_last, ok))
        if files and before.is_sending:
            raise Violation("two sets are sent at a time")
        if files:
            self.sending = (files, dict(self.files))
        return bool(files)

    def _answer(self) -> None:
        """What the process that sends finds."""
        assert self.sending is not None
        (files, then), self.sending = self.sending, None
        self.now_s += self.dice.choice((0.0, 1.0, 5.0))
        torn = {f.name: "torn" for f in files if f.name.endswith(".pt") and not then[f.name][3]}
        endless = [f.name for f in files if f.is_open and not f.name.endswith(".pt")]
        if torn or endless:
            self.state = mm.unproved(self.state, torn, endless)
        elif self.dice.random() < 0.1:
            self.state = mm.failed(self.state, "HDFS is away", self.now_s)
        elif any(self.files[f.name][1] != f.version for f in files):
            self.state = mm.changed(self.state, "written to")
        else:
            self._take(files, then)

    def _take(self, files: tuple[ScannedFile, ...], then: dict[str, Any]) -> None:
        self.state = mm.kept(self.state, files, KeptSet(1, len(files), 1, 1.0), self.now_s)
        if not all(then[f.name][3] for f in files):
            raise Violation("a set has a file that is not whole")
        saves = [then[f.name][0] for f in files if f.name in self.names]
        if not saves:
            return
        if len(set(saves)) > 1:
            raise Violation(f"a set of two saves: {saves}")
        if len(saves) < len(self.names) and not (self.is_dead and not self.kept):
            raise Violation("a set lacks a file")
        if self.kept and saves[0] < self.kept[-1]:
            raise Violation("an older save over a newer one")
        self.kept.append(saves[0])

    def _end(self) -> None:
        """After success the last whole save is kept."""
        while self.todo and not self.is_dead:
            self._write()
        ok = not self.is_dead
        self._crash()
        for _ in range(100):
            if self.sending is not None:
                self._answer()
            elif not self._scan(is_last=True, ok=ok):
                break
        else:
            raise Violation("the last scans never end")
        if ok and self.save and (not self.kept or self.kept[-1] != self.save):
            raise Violation(f"save {self.save} is lost, {self.kept[-1:]} is kept")


@pytest.mark.parametrize("seed", range(200))
def test_only_whole_sets_are_kept_in_their_order(seed: int) -> None:
    MirrorWorld(seed).walk()


def test_the_walks_keep_sets() -> None:
    worlds = [MirrorWorld(seed) for seed in range(100)]
    for world in worlds:
        world.walk()
    assert sum(len(world.kept) for world in worlds) > 300


MUTANTS = [
    ("scanned", "if state.is_over or state.is_sending:", "if state.is_over:"),
    ("scanned", "if holding or not is_new", "if not is_new"),
    ("_is_settled", "else QUIET_S", "else 0.0"),
    ("_is_settled", "record.unproved or record.is_endless or ", ""),
    ("_is_settled", "scan.is_last or ", ""),
    ("_record", "before.version != file.version", "False"),
    ("scanned", "if is_last and not scan.has_succeeded:", "if False:"),
    ("_as_while_it_lived", "is_open=not is_closed", "is_open=False"),
    ("_as_while_it_lived", "and record.version == file.version", ""),
    ("kept", "state.saves_several or len(fresh) > 1", "False"),
    ("unproved", "reasons.get(name, record.unproved)", "record.unproved"),
]


@pytest.mark.parametrize(("name", "part", "mistake"), MUTANTS)
def test_the_rules_find_a_mistake(
    name: str, part: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = inspect.getsource(getattr(mm, name))
    assert part in source
    namespace: dict[str, Any] = {}
    code = compile(source.replace(part, mistake), name, "exec", flags=0x1000000)
    exec(code, mm.__dict__, namespace)
    monkeypatch.setattr(mm, name, namespace[name])
    with pytest.raises(Violation):
        _walk_all()


def _walk_all() -> None:
    for seed in range(600):
        MirrorWorld(seed).walk()
