"""The copy in host memory that a save in the background is written from."""

from __future__ import annotations

from collections.abc import Sequence

from hdfs_utils.checkpoints.values import Source


class StagingBuffer:
    """Memory that is used again for each save: fresh memory costs as much as the copy itself."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def copy(self, sources: Sequence[Source]) -> list[Source]:
        """The same sources with their bytes in the buffer; what was there before is gone.

        What nobody will change (bytes, JAX's arrays) is not copied.
        """
        sizes = [
            len(s.content) for s in sources if isinstance(s.content, memoryview) and not s.is_frozen
        ]
        if sum(sizes) > len(self._buffer):
            self._buffer = bytearray(sum(sizes))
        target = memoryview(self._buffer)
        copied, at = [], 0
        for source in sources:
            if isinstance(source.content, memoryview) and not source.is_frozen:
                end = at + len(source.content)
                target[at:end] = source.content
                content = target[at:end].toreadonly()
                copied.append(Source(source.name, source.length, content, source.array))
                at = end
            else:
                copied.append(source)
        return copied
