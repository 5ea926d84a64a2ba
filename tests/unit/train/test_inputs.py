"""The files of an input, as training code reads them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.train.sdk_settings import set_sdk
from yarnam import train
from yarnam.core.model.job_spec import DataInput, InputMode, Sharding
from yarnam.train._inputs import inputs as inputs_module
from yarnam.wire.input_manifest import ListedInput, encode_manifest

Enter = Callable[..., train.Inputs]


def manifest(mode: InputMode, shard: Sharding, count: int) -> bytes:
    given = DataInput("train", "hdfs:///data/train", mode=mode, shard=shard)
    files = [(f"sub/part-{n:02}", 100 + n, 1000 + n) for n in range(count)]
    one = DataInput("words", "hdfs:///data/words.txt")
    return encode_manifest(
        [
            ListedInput(given, "/data/train", False, files),
            ListedInput(one, "/data/words.txt", True, [("words.txt", 5, 7)]),
        ]
    )


@pytest.fixture
def enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Be a process of a job."""

    def act(
        share: tuple[int, int] = (0, 1),
        *,
        mode: InputMode = InputMode.STREAM,
        shard: Sharding = Sharding.FILES,
        name: str = "train",
        skipped: str = "",
        count: int = 12,
    ) -> train.Inputs:
        place = tmp_path / "inputs.json.gz"
        place.write_bytes(manifest(mode, shard, count))
        monkeypatch.setenv("YARNAM_RANK", "0")
        set_sdk(monkeypatch, inputs_file=str(place), input_share=share)
        monkeypatch.setenv("YARNAM_INPUT_TRAIN", "hdfs:///data/train")
        monkeypatch.setenv("YARNAM_LOCAL_INPUTS", "/container/yarnam-inputs")
        monkeypatch.setenv("YARNAM_SKIPPED_TRAIN", skipped)
        return train.inputs(name)

    return act


def records(part: train.Part) -> Iterator[str]:
    """Four in each file."""
    return (f"{part.uri[-7:]}/{n}" for n in range(4))


def test_each_process_gets_its_share(enter: Enter) -> None:
    seen: Counter[str] = Counter()
    for share in range(3):
        data = enter((share, 3))
        for epoch in data.epochs(1):
            for part in epoch:
                assert part.path == part.uri
                seen.update(part.records(records(part)))
    assert seen == Counter(f"part-{n:02}/{r}" for n in range(12) for r in range(4))


def test_what_is_not_divided_is_everybodys(enter: Enter) -> None:
    for share in range(2):
        data = enter((share, 2), shard=Sharding.NONE)
        parts = [part.uri for epoch in data.epochs(1) for part in epoch]
        assert len(parts) == 12


def test_copies_on_the_node_are_read_there(enter: Enter) -> None:
    data = enter((1, 4), mode=InputMode.CACHE)
    part = next(part for epoch in data.epochs(1) for part in epoch)
    assert part.path.startswith("/container/yarnam-inputs/train/sub/part-")
    assert part.uri.startswith("hdfs:///data/train/sub/part-")


def test_an_input_that_is_one_file(enter: Enter) -> None:
    (part,) = [part for epoch in enter(name="words").epochs(1) for part in epoch]
    assert (part.path, part.length) == ("hdfs:///data/words.txt", 5)


def test_files_come_in_another_order_in_each_epoch_and_by_another_seed(enter: Enter) -> None:
    orders = [
        [part.uri for part in epoch] for seed in (0, 1) for epoch in enter().epochs(2, seed=seed)
    ]
    assert len({tuple(order) for order in orders}) == 4
    assert len({tuple(sorted(order)) for order in orders}) == 1
    again = [[part.uri for part in epoch] for epoch in enter().epochs(2, seed=0)]
    assert again == orders[:2]


def test_excluded_files_are_not_read(enter: Enter) -> None:
    data = enter(skipped="sub/part-03\nsub/part-05")
    names = {part.uri[-7:] for epoch in data.epochs(1) for part in epoch}
    assert names == {f"part-{n:02}" for n in range(12)} - {"part-03", "part-05"}


def test_what_is_proved_between_two_runs_of_an_epoch_is_passed_over(
    enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch's own list stays as it was, so that the shares do; the file is not read all the
    same, nor is it among ``files``."""
    monkeypatch.setattr(inputs_module, "excluded_files", lambda name, epoch: frozenset({"part-00"}))
    before = enter((0, 2))
    first = {part.uri[-7:] for epoch in before.epochs(1) for part in epoch}
    proved = min(first)
    after = enter((0, 2), skipped=f"part-00\nsub/{proved}\n{proved}")
    again = {part.uri[-7:] for epoch in after.epochs(1) for part in epoch}
    assert again == first - {proved}
    assert not [file for file in after.files if file.path.endswith(proved)]


def test_a_restart_with_another_size_reads_on(enter: Enter) -> None:
    """Through JSON, as a checkpoint keeps it."""
    seen: Counter[str] = Counter()
    states = []
    for share, steps in enumerate((3, 17)):
        data = enter((share, 2))
        reading = (r for e in data.epochs(1) for part in e for r in part.records(records(part)))
        for _ in range(steps):
            seen[next(reading)] += 1
        states.append(json.loads(json.dumps(data.state())))
    for share in range(3):
        data = enter((share, 3))
        data.resume(states)
        for epoch in data.epochs(2):
            for part in epoch:
                if epoch.number == 0:
                    seen.update(part.records(records(part)))
                else:
                    part.done()
    assert seen == Counter(f"part-{n:02}/{r}" for n in range(12) for r in range(4))


def test_a_state_is_small(enter: Enter) -> None:
    data = enter((0, 1), count=5000)
    for epoch in data.epochs(3):
        for number, part in enumerate(epoch):
            part.done()
            if epoch.number == 2 and number > 2500:
                break
        if epoch.number == 2:
            break
    assert len(json.dumps(data.state())) < 20_000


def test_states_that_do_not_fit_are_refused(enter: Enter) -> None:
    states = [enter((share, 4)).state() for share in range(4)]
    data = enter((0, 2))
    with pytest.raises(train.StatesMissing, match="missing: 3"):
        data.resume(states[:3])
    with pytest.raises(ValueError, match=r"had 12 files .* has 13"):
        enter((0, 2), count=13).resume(states)
    with pytest.raises(ValueError, match="not a state of input 'train'"):
        data.resume([{**states[0], "input": "other"}])


def test_an_input_may_be_called_share(
    enter: Enter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its URI and this process's share of the inputs have had one variable."""
    monkeypatch.setenv("YARNAM_INPUT_SHARE", "hdfs:///data/share")
    data = enter((1, 3))
    assert (data.share, data.shares) == (1, 3)
    assert train.input("share") == "hdfs:///data/share"


def test_a_spelling_mistake_is_told(enter: Enter) -> None:
    with pytest.raises(KeyError, match="it has: train, words"):
        enter(name="tarin")


def test_outside_of_a_job_a_directory_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("YARNAM_SDK", "YARNAM_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("a/1", "2", "_SUCCESS", ".hidden/3"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    data = train.inputs("train", f"file://{tmp_path}")
    paths = {part.path for epoch in data.epochs(1) for part in epoch}
    assert paths == {str(tmp_path / "a/1"), str(tmp_path / "2")}
    assert (data.share, data.shares) == (0, 1)
    with pytest.raises(KeyError, match="it has: none"):
        train.inputs("train")
