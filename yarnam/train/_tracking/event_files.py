"""Event files of TensorBoard, by its own writer: on HDFS through fsspec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from yarnam.train._job.job_context import attempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yarnam.train._tracking.metric_point import Point


class EventFiles:
    """A new file for each attempt. Raises what fsspec and the file system raise."""

    def __init__(self, directory: str, parameters: Mapping[str, Any]) -> None:
        self._directory = directory
        self._parameters = parameters
        self._writer: Any = None

    def write(self, points: Sequence[Point]) -> None:
        """In the file when this returns."""
        try:
            writer = self._writer or self._begun(points[0])
            for one in points:
                value = Summary.Value(tag=one.name, simple_value=one.value)
                writer.add_event(
                    Event(wall_time=one.at_s, step=one.step, summary=Summary(value=[value]))
                )
            writer.flush()
        except Exception:
            # A writer that has failed stays so. The same points are tried in another file.
            self._writer = None
            raise

    def close(self, end: str) -> None:
        if self._writer is not None:
            self._writer.close()

    def _begun(self, first: Point) -> Any:
        self._writer = EventFileWriter(self._directory)
        if attempt() > 1:
            # TensorBoard forgets what an earlier attempt has written from this step on.
            begun = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=first.at_s, step=first.step, session_log=begun))
        if self._parameters:
            rows = "".join(f"| {name} | {value} |\n" for name, value in self._parameters.items())
            text = text_pb("parameters", f"| parameter | value |\n|---|---|\n{rows}")
            self._writer.add_event(Event(wall_time=first.at_s, step=first.step, summary=text))
        return self._writer
