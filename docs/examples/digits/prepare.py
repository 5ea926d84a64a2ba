"""Write scikit-learn's 1,797 scanned digits to HDFS as record files.

    python prepare.py hdfs:///user/me/digits

The data set comes with scikit-learn; nothing is downloaded. It is written under a temporary name
and renamed when it is whole, so that nobody reads half of it. Running it again is harmless.
"""

from __future__ import annotations

import argparse
import hashlib
import os

import numpy as np
from records import MANIFEST, Manifest, Shard, pack, read_manifest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from hdfs_utils import connect

SEED = 0
HELD_OUT = 357  # a fifth; leaves 1,440, which eight shards divide
TRAIN_SHARDS = 8
TEST_SHARDS = 4


def split(part: str, pixels: np.ndarray, labels: np.ndarray, count: int) -> dict[str, bytes]:
    """Shards of nearly equal length, by path."""
    return {
        f"{part}/{number:03}.rec": pack(pixels[number::count], labels[number::count])
        for number in range(count)
    }


def build() -> tuple[Manifest, dict[str, bytes]]:
    """The whole data set in memory: it is 115 kB."""
    pixels, labels = load_digits(return_X_y=True)
    train_pixels, test_pixels, train_labels, test_labels = train_test_split(
        pixels, labels, test_size=HELD_OUT, stratify=labels, random_state=SEED
    )
    train = split("train", train_pixels, train_labels, TRAIN_SHARDS)
    test = split("test", test_pixels, test_labels, TEST_SHARDS)

    def describe(shards: dict[str, bytes]) -> tuple[Shard, ...]:
        record_bytes = Manifest((), ()).record_bytes
        return tuple(
            Shard(path, len(data) // record_bytes, hashlib.sha256(data).hexdigest())
            for path, data in shards.items()
        )

    return Manifest(describe(train), describe(test)), {**train, **test}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("target", help="URI of the directory to write")
    target = parser.parse_args().target.rstrip("/")
    manifest, files = build()
    storage = connect(target)
    if storage.exists(target):
        if read_manifest(target) == manifest:
            print(f"{target} is there already")
            return
        raise SystemExit(f"{target} holds something else: choose another place, or remove it")
    draft = f"{target}.writing-{os.getpid()}"
    for path, data in files.items():
        storage.write_bytes(f"{draft}/{path}", data)
    storage.write_bytes(f"{draft}/{MANIFEST}", manifest.to_json())
    storage.rename(draft, target)
    records = sum(shard.records for shard in (*manifest.train, *manifest.test))
    print(f"{target}: {records} digits in {len(files)} shards")


if __name__ == "__main__":
    main()
