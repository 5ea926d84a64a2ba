"""Any world size to any other: the same arrays, and not many more bytes than were wanted."""

from __future__ import annotations

import itertools
import math
import threading
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hdfs_utils.checkpoints import Checkpointer, Part, Region, Token, open_checkpoint
from hdfs_utils.checkpoints.format import manifest as mf
from hdfs_utils.checkpoints.format import regions
from tests.fakes.files import MemoryFiles


@st.composite
def shapes_and_boxes(draw: st.DrawFn) -> tuple[tuple[int, ...], Region]:
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=0, max_size=4)))
    start = tuple(draw(st.integers(0, size - 1)) for size in shape)
    extent = tuple(
        draw(st.integers(1, size - first)) for size, first in zip(shape, start, strict=True)
    )
    return shape, Region(start, extent)


@given(shapes_and_boxes(), st.integers(1, 64), st.integers(1, 64), st.sampled_from([1, 4, 8]))
def test_the_spans_of_a_box_hold_each_of_its_elements_once(
    given_box: tuple[tuple[int, ...], Region], chunk: int, limit: int, itemsize: int
) -> None:
    shape, box = given_box
    array = np.arange(math.prod(shape), dtype=f"u{itemsize}" if itemsize > 1 else "u1")
    array = array.reshape(shape)
    stored = array.tobytes()
    out = np.zeros(shape, array.dtype)
    filled = np.zeros(shape, int)
    read = 0
    for span in regions.spans(shape, itemsize, box, chunk, limit):
        data = np.frombuffer(stored[span.start : span.stop], array.dtype).reshape(span.shape)
        out[span.box.slices()] = data[span.inside.slices()]
        filled[span.box.slices()] += 1
        read += span.stop - span.start
    np.testing.assert_array_equal(out[box.slices()], array[box.slices()])
    assert filled[box.slices()].min() == 1
    assert filled.sum() == box.size
    # No more than a chunk is read for each contiguous row of the box, nor anything twice.
    rows = math.prod(box.extent[:-1]) if shape else 1
    assert read <= min(len(stored), box.size * itemsize + rows * 2 * max(chunk, itemsize))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[list[Region]]]:
    """A shape, and for each of some ranks its boxes: a grid, dealt out in any way."""
    shape = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=3)))
    return shape, draw(grids(shape))


@st.composite
def grids(draw: st.DrawFn, shape: tuple[int, ...]) -> list[list[Region]]:
    boxes = [Region((), ())]
    for size in shape:
        cuts = sorted(draw(st.sets(st.integers(1, max(1, size - 1)), max_size=3)) if size else [])
        bounds = [0, *(cut for cut in cuts if cut < size), size]
        pieces = list(itertools.pairwise(bounds))
        boxes = [
            Region((*box.start, first), (*box.extent, stop - first))
            for box in boxes
            for first, stop in pieces
        ]
    world_size = draw(st.integers(1, 5))
    dealt: list[list[Region]] = [[] for _ in range(world_size)]
    for box in boxes:
        dealt[draw(st.integers(0, world_size - 1))].append(box)
    return dealt


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_world_size_to_any_other(data: st.DataObject) -> None:
    shape, writers = data.draw(layouts())
    readers = data.draw(grids(shape))
    dtype = data.draw(st.sampled_from(["<f4", "<i8", "|b1", "<U3", "<M8[s]"]))
    array = np.arange(math.prod(shape)).astype("<i8").astype(dtype).reshape(shape)
    fs = MemoryFiles()
    _save(fs, writers, array)
    [status] = [s for s in fs.list("/c") if "/step-" in s.path]
    out = np.zeros(shape, dtype)
    for boxes in readers:
        opened = open_checkpoint(status.path, fs=fs)
        for box in boxes:
            out[box.slices()] = opened.array("w", box)
    np.testing.assert_array_equal(out, array)
    np.testing.assert_array_equal(open_checkpoint(status.path, fs=fs).array("w"), array)


def _save(fs: MemoryFiles, writers: list[list[Region]], array: np.ndarray) -> None:
    def save(rank: int) -> None:
        parts = [Part(array[box.slices()], array.shape, box.start) for box in writers[rank]]
        values: dict[str, Any] = {"w": parts} if parts else {}
        token = Token("job")
        one = Checkpointer("/c", rank=rank, world_size=len(writers), token=token, fs=fs)
        one.save(1, values)

    threads = [threading.Thread(target=save, args=(rank,)) for rank in range(len(writers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_rank_reads_the_chunks_that_it_needs_and_no_others() -> None:
    """Rows of 6 MiB: a column of them needs one or two chunks of each row."""
    array = np.arange(8 * 6 << 18, dtype="<u4").reshape(8, 6 << 18)
    fs = MemoryFiles()
    _save(fs, [[regions.whole(array.shape)]], array)
    [status] = [s for s in fs.list("/c") if "/step-" in s.path]
    opened = open_checkpoint(status.path, fs=fs)
    box = Region((2, 0), (1, 6 << 18))
    np.testing.assert_array_equal(opened.array("w", box), array[2:3])
    assert opened.bytes_read == 2 * mf.CHUNK  # 12 to 18 MiB: of chunks 3 and 4
    opened = open_checkpoint(status.path, fs=fs)
    box = Region((0, 0), (8, 10))
    np.testing.assert_array_equal(opened.array("w", box), array[:, :10])
    assert opened.bytes_read <= 8 * mf.CHUNK


def test_many_small_values_in_one_chunk_cost_one_read() -> None:
    fs = MemoryFiles()
    one = Checkpointer("/c", fs=fs)
    saved = one.save(1, {f"v{n}": np.full(10, n) for n in range(1000)})
    assert saved
    opened = open_checkpoint(saved, fs=fs)
    found = opened.arrays()
    assert all(set(found[f"v{n}"]) == {n} for n in range(1000))
    assert opened.bytes_read == saved.shards[0].data_length
