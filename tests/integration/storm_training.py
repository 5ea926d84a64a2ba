"""What each process of a storm's job runs: ``storm_training.py FOLDER STEPS STEP_S``.

It says that it has started. Rank 0 goes on from the newest checkpoint, saves after each step, and
writes the output at the end; the others wait for it. What it has saved is noted in the folder too,
so that a checkpoint that is torn, or lost once it was there, is seen: it is told in ``torn-*``.
"""

import sys
import time
from pathlib import Path

from yarnam import train

PARTS = 3
SIZE = 150_000


def content(step: int, part: int) -> bytes:
    return f"step {step} part {part};".encode() * (SIZE // 16)


def begin(folder: Path) -> None:
    stamp = folder / f"start-{train.attempt()}-{train.rank()}"
    stamp.with_suffix(".part").write_text(f"{time.time()} {train.world_size()}")
    stamp.with_suffix(".part").replace(stamp)


def put(path: Path, text: str) -> None:
    draft = path.with_name(f"draft-{path.name}-{train.attempt()}")
    draft.write_text(text)
    draft.replace(path)


def restored(folder: Path, saved: train.checkpoint.JobCheckpointer) -> int:
    noted = folder / "saved"
    before = int(noted.read_text()) if noted.exists() else 0
    found = saved.load()
    step = 0 if found is None else found[0].step
    if found is not None:
        for part in range(PARTS):
            if bytes(found[1][f"part-{part}"]) != content(step, part):
                put(folder / f"torn-{train.attempt()}", f"part {part} of step {step} is of another")
    if step < before:
        put(folder / f"torn-{train.attempt()}", f"step {before} was saved, {step} is the newest")
    return step


def lead(folder: Path, steps: int, step_s: float) -> None:
    with train.checkpoint.open() as saved:
        for step in range(restored(folder, saved) + 1, steps + 1):
            time.sleep(step_s)
            values = {f"part-{part}": content(step, part) for part in range(PARTS)}
            # One that HDFS has not taken yet lies on the node, and may be lost with it.
            if saved.save(step, values) is not None:
                put(folder / "saved", str(step))
    from hdfs_utils import connect

    place = train.output_directory()
    assert place is not None
    files = connect(place)
    for part in range(PARTS):
        files.write_bytes(f"{place}/part-{part}", content(steps, part))
    put(folder / "done", "")


def main() -> None:
    folder, steps, step_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    begin(folder)
    if train.rank() == 0:
        lead(folder, steps, step_s)
    while not (folder / "done").exists():
        time.sleep(0.2)


if __name__ == "__main__":
    main()
