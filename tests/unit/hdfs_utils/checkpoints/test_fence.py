"""Epochs: who may commit, and why a zombie cannot."""

from __future__ import annotations

import threading

import pytest

from hdfs_utils.checkpoints import Token
from hdfs_utils.checkpoints.commit.fence import VARIABLE, Fence, newest_claim
from hdfs_utils.errors import AlreadyExists, Fenced, FencedByAnother, HdfsError, Unavailable
from tests.fakes.files import MemoryFiles, fail_on

ROOT = "/c"
NAME = "step-0000000001-e000001-00000000"
JOB = "application_1700000000000_0007"


@pytest.fixture
def fs() -> MemoryFiles:
    made = MemoryFiles()
    made.mkdirs(f"{ROOT}/{NAME}")
    return made


def token(owner: str, *attempt: int) -> Token:
    return Token(owner, attempt)


@pytest.mark.parametrize(
    ("mine", "newest", "is_fenced"),
    [
        (token(JOB, 1), token(JOB, 2), True),
        (token(JOB, 2), token(JOB, 1), False),
        (token(JOB, 2), token(JOB, 2), False),
        (token(JOB, 9), token(JOB, 10), True),
        (token(JOB, 2, 1), token(JOB, 2, 2), True),
        (token(JOB, 9), token("application_1700000000000_0008", 1), True),
        (token(JOB, 1), token("application_1700000000000_0006", 5), False),
        # Another ResourceManager: its numbers say nothing.
        (token(JOB, 1), token("application_1800000000000_0009", 1), False),
        (token("process-a", 1), token("process-b", 1), False),
        (token(JOB, 1), token("process-b", 1), False),
    ],
)
def test_who_is_whose_successor(mine: Token, newest: Token, is_fenced: bool) -> None:
    assert mine.is_fenced_by(newest) is is_fenced


def test_tokens_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(Token.parse(f"{JOB}:3.1")) == f"{JOB}:3.1"
    assert Token.parse(f"{JOB}:3").attempt == (3,)
    for text in ("", "a", "a:", ":1", "a:b", "a b:1", "a:-1", "a:1:2/"):
        with pytest.raises(ValueError):
            Token.parse(text)
    monkeypatch.setenv(VARIABLE, f"{JOB}:4")
    assert Token.of_this_process() == token(JOB, 4)
    monkeypatch.delenv(VARIABLE)
    assert Token.of_this_process() != Token.of_this_process()


def test_epochs_grow_and_one_token_has_one(fs: MemoryFiles) -> None:
    assert newest_claim(fs, ROOT) is None
    first = Fence.claim(fs, ROOT, token(JOB, 1))
    assert first.epoch == 1
    assert Fence.claim(fs, ROOT, token(JOB, 1)) == first
    assert Fence.find(fs, ROOT, token(JOB, 1)) == first
    assert Fence.find(fs, ROOT, token(JOB, 2)) is None
    second = Fence.claim(fs, ROOT, token(JOB, 2))
    assert second.epoch == 2
    for stale in (lambda: Fence.claim(fs, ROOT, token(JOB, 1)), first.check):
        with pytest.raises(Fenced, match=f"{JOB}:2"):
            stale()
    with pytest.raises(Fenced):
        Fence.find(fs, ROOT, token(JOB, 1))


def test_old_claims_go_but_for_a_few(fs: MemoryFiles) -> None:
    for attempt in range(1, 30):
        Fence.claim(fs, ROOT, token(JOB, attempt))
    assert len(fs.list(f"{ROOT}/.fence")) <= 9
    assert newest_claim(fs, ROOT) is not None


def test_a_commit_is_there_once(fs: MemoryFiles) -> None:
    fence = Fence.claim(fs, ROOT, token(JOB, 1))
    fence.commit(NAME, b"manifest")
    fence.commit(NAME, b"manifest")  # as after an answer that was lost
    assert fs.read_bytes(f"{ROOT}/{NAME}/manifest.json") == b"manifest"
    with pytest.raises(AlreadyExists):
        fence.commit(NAME, b"another")


def test_a_zombie_between_its_check_and_its_rename_finds_nothing_to_rename(
    fs: MemoryFiles,
) -> None:
    zombie = Fence.claim(fs, ROOT, token(JOB, 1))

    def while_it_sleeps(operation: str, path: str) -> None:
        if operation == "rename" and ".commits" in path:
            fs.fail = lambda _operation, _path: None
            Fence.claim(fs, ROOT, token(JOB, 2))

    fs.fail = while_it_sleeps
    with pytest.raises(Fenced):
        zombie.commit(NAME, b"manifest")
    assert not fs.exists(f"{ROOT}/{NAME}/manifest.json")


@pytest.mark.parametrize("number", range(12))
def test_whenever_the_successor_claims_the_zombie_commits_before_it_or_never(
    fs: MemoryFiles, number: int
) -> None:
    """The successor comes in before the zombie's n-th operation, for each n."""
    zombie = Fence.claim(fs, ROOT, token(JOB, 1))
    left, seen = [number], []

    def step_in(_operation: str, _path: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            fs.fail = lambda _operation, _path: None
            Fence.claim(fs, ROOT, token(JOB, 2))
            seen.append(fs.exists(f"{ROOT}/{NAME}/manifest.json"))

    fs.fail = step_in
    try:
        zombie.commit(NAME, b"manifest")
        has_committed = True
    except Fenced:
        has_committed = False
    is_there = fs.exists(f"{ROOT}/{NAME}/manifest.json")
    assert is_there == has_committed
    if seen:
        assert is_there == seen[0], "it appeared after the successor had claimed"


def test_a_zombie_that_wakes_up_before_its_claim_does_not_take_over(fs: MemoryFiles) -> None:
    Fence.claim(fs, ROOT, token(JOB, 1))

    def while_it_sleeps(operation: str, path: str) -> None:
        if operation == "rename" and ".fence" in path:
            fs.fail = lambda _operation, _path: None
            Fence.claim(fs, ROOT, token(JOB, 3))

    fs.fail = while_it_sleeps
    with pytest.raises(Fenced):
        Fence.claim(fs, ROOT, token(JOB, 2))
    claim = newest_claim(fs, ROOT)
    assert claim is not None
    assert claim.token == token(JOB, 3)


@pytest.mark.parametrize("operation", ["create", "write", "close", "rename", "list"])
def test_a_commit_can_be_tried_again(fs: MemoryFiles, operation: str) -> None:
    fence = Fence.claim(fs, ROOT, token(JOB, 1))
    fs.fail = fail_on(operation, Unavailable("down"))
    with pytest.raises(Unavailable):
        fence.commit(NAME, b"manifest")
    fence.commit(NAME, b"manifest")
    assert fs.read_bytes(f"{ROOT}/{NAME}/manifest.json") == b"manifest"


def test_claimers_at_once_get_different_epochs(fs: MemoryFiles) -> None:
    epochs: list[int] = []
    problems: list[HdfsError] = []

    def claim(number: int) -> None:
        try:
            epochs.append(Fence.claim(fs, ROOT, token(f"process-{number}", 1)).epoch)
        except HdfsError as error:
            problems.append(error)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert sorted(epochs) == list(range(1, 9))


OTHER = "application_1700000000000_0008"


@pytest.mark.parametrize("owner", [OTHER, "process-notebook"])
def test_another_owner_that_takes_the_directory_is_named(fs: MemoryFiles, owner: str) -> None:
    fence = Fence.claim(fs, ROOT, token(JOB, 1))
    Fence.claim(fs, ROOT, token(owner, 1))
    with pytest.raises(FencedByAnother, match=f"belong to {owner}:1") as caught:
        fence.commit(NAME, b"{}")
    assert "Two jobs need two directories" in str(caught.value)


def test_a_restart_finds_the_other_job_there(fs: MemoryFiles) -> None:
    Fence.claim(fs, ROOT, token(JOB, 1))
    Fence.claim(fs, ROOT, token(OTHER, 1))
    for look in (Fence.claim, Fence.find):
        with pytest.raises(FencedByAnother, match=f"belong to {OTHER}:1"):
            look(fs, ROOT, token(JOB, 2))


def test_a_later_attempt_of_the_same_job_is_not_another_job(fs: MemoryFiles) -> None:
    fence = Fence.claim(fs, ROOT, token(JOB, 1))
    Fence.claim(fs, ROOT, token(JOB, 2))
    for act in (fence.check, lambda: Fence.claim(fs, ROOT, token(JOB, 1))):
        with pytest.raises(Fenced) as caught:
            act()
        assert type(caught.value) is Fenced
        assert "Two jobs" not in str(caught.value)
