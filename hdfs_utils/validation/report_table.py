"""Reports as rows, and as a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hdfs_utils.errors import NotSupported
from hdfs_utils.filesystem import FileSystem
from hdfs_utils.validation.findings import FileReport

COLUMNS = (
    "path", "length", "mtime_ms", "format", "verdict", "kind", "reason", "offset", "record",
    "member", "message",
)  # fmt: skip
_ROWS_AT_ONCE = 10_000


def rows(report: FileReport) -> Iterator[dict[str, Any]]:
    """One row for each finding; one with empty finding columns for a file without any."""
    base = {
        "path": report.path,
        "length": report.length,
        "mtime_ms": report.mtime_ms,
        "format": report.format,
        "verdict": report.verdict.value,
    }
    if not report.findings:
        yield {**dict.fromkeys(COLUMNS), **base}
    for finding in report.findings:
        yield {
            **base,
            "kind": finding.kind.value,
            "reason": finding.reason.value,
            "offset": finding.offset,
            "record": finding.record,
            "member": finding.member or None,
            "message": finding.message,
        }


class ParquetReport:
    """Writes rows to a Parquet file on any file system as they come; there whole or not at all.

    Raises NotSupported when pyarrow is missing.
    """

    def __init__(self) -> None:
        try:
            import pyarrow as pa
        except ImportError as error:
            message = "writing Parquet needs pyarrow: pip install 'yarnam[validate]'"
            raise NotSupported(message) from error
        whole, text = pa.int64(), pa.string()
        kinds = {"length": whole, "mtime_ms": whole, "offset": whole, "record": whole}
        self._pa = pa
        self._schema = pa.schema([(name, kinds.get(name, text)) for name in COLUMNS])
        self._tables: list[Any] = []
        self._rows: list[dict[str, Any]] = []

    def add(self, reports: Iterable[FileReport]) -> None:
        for report in reports:
            self._rows.extend(rows(report))
            if len(self._rows) >= _ROWS_AT_ONCE:
                self._pack()

    def _pack(self) -> None:
        # Columns take a fraction of what dictionaries take.
        self._tables.append(self._pa.Table.from_pylist(self._rows, self._schema))
        self._rows = []

    def write(self, fs: FileSystem, path: str) -> None:
        import pyarrow.parquet as pq

        self._pack()
        sink = self._pa.BufferOutputStream()
        pq.write_table(self._pa.concat_tables(self._tables), sink, compression="zstd")
        fs.write_atomic(path, memoryview(sink.getvalue()))

    def write_local(self, path: Path) -> None:
        """Write what was taken to this machine."""
        from hdfs_utils.backends.local import LocalFileSystem

        self.write(LocalFileSystem(), str(path.absolute()))
