"""Checks the files below a path, as ``yarnam data verify`` and a submit with ``verify`` do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hdfs_utils import HdfsError, validation
from hdfs_utils.errors import NotFound
from hdfs_utils.filesystem import FileStatus
from hdfs_utils.transfer import MANIFEST
from hdfs_utils.transfer.tree_manifest import TreeManifests
from hdfs_utils.validation import (
    CheckOptions,
    Checks,
    FileReport,
    FindingKind,
    Reason,
    TextRules,
    Verdict,
)
from hdfs_utils.validation.engine import DEFAULT_WORKERS
from hdfs_utils.validation.findings import Finding
from hdfs_utils.validation.hdfs_blocks import bad_blocks_of_site
from hdfs_utils.validation.report_table import ParquetReport
from hdfs_utils.validation.sandbox.decoder_pool import DecoderPool, Limits
from hdfs_utils.validation.user_checks import installed, load
from yarnam._light_imports import on_first_use
from yarnam.adapters.hdfs.error_map import hdfs_errors
from yarnam.client.data.blacklist_entries import open_blacklist, proved_entry
from yarnam.client.data.data_location import DataLocation
from yarnam.errors import ExitCode, UsageError

with on_first_use():
    from hdfs_utils.config import configuration


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """A check, as given on the command line. Empty values and 0 mean the default.

    Attributes:
        sample: the share of files to check, from 0 to 1; ``None`` for all.
        schema: ``name:type,name:type``.
        own: ``ending=module:function``.
        add: put files that are proved corrupt on the input blacklist.
        memory_gib, time_limit_s: the limits of one file's check; see ``Limits``.
        keep_clean: keep the reports of clean files too, which for a large data set is much.
    """

    path: str
    format: str = ""
    sample: float | None = None
    workers: int = 0
    memory_gib: int = 0
    time_limit_s: float = 0.0
    encoding: str = "utf-8"
    columns: int = 0
    delimiter: str = ""
    """The delimiter of CSV; empty to detect it from the first line of each file."""
    schema: str = ""
    own: tuple[str, ...] = ()
    allow_empty: bool = False
    add: bool = False
    keep_clean: bool = False


@dataclass
class VerifySummary:
    """Counts of all files, reports of those that are kept. ``length`` in bytes;
    ``not_sampled``: files that are not in the sample."""

    files: int = 0
    length: int = 0
    clean: int = 0
    corrupt: int = 0
    not_checked: int = 0
    not_sampled: int = 0
    added: int = 0
    duration_s: float = 0.0
    reports: list[FileReport] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def count(self, report: FileReport, *, keep_clean: bool) -> None:
        self.files += 1
        self.length += report.length
        self.clean += report.verdict is Verdict.CLEAN
        self.corrupt += report.verdict is Verdict.CORRUPT
        self.not_checked += report.verdict is Verdict.NOT_CHECKED
        if keep_clean or report.verdict is not Verdict.CLEAN:
            self.reports.append(report)

    @property
    def exit_code(self) -> int:
        """65: a file is corrupt (EX_DATAERR). 69: one was not checked, so nothing is proved."""
        if self.corrupt:
            return int(ExitCode.BAD_SPEC)
        return int(ExitCode.UNAVAILABLE if self.not_checked else ExitCode.OK)


def verify_path(
    location: DataLocation,
    order: VerifyRequest,
    progress: Callable[[VerifySummary], None] | None = None,
) -> VerifySummary:
    """Check. Raises UsageError, Unavailable, NoPermission; about single files nothing is raised."""
    files = location.files
    start_s = time.monotonic()
    done = VerifySummary()
    with hdfs_errors(f"reading {order.path}"):
        try:
            listed: Iterable[FileStatus] = validation.data_files(files, files.own_path(order.path))
            if order.sample is not None:
                every = list(listed)
                listed = validation.choose_sample(every, order.sample)
                done.not_sampled = len(every) - len(listed)
            manifests = TreeManifests(files)
            options = replace(_options(location, order), manifests=manifests)
            for report in validation.verify(files, listed, options):
                done.count(report, keep_clean=order.keep_clean)
                done.duration_s = time.monotonic() - start_s
                if progress is not None:
                    progress(done)
            if order.sample is None:
                for path in manifests.unseen(order.path):
                    done.count(_missing(path), keep_clean=order.keep_clean)
        except NotFound as error:
            raise UsageError(f"{order.path} does not exist") from error
    done.duration_s = time.monotonic() - start_s
    if order.add:
        _add(location, done)
    return done


def _missing(path: str) -> FileReport:
    message = f"{MANIFEST} lists it, and it does not exist"
    finding = Finding(FindingKind.NOT_CHECKED, Reason.UNREADABLE, message)
    return FileReport(path, 0, 0, "", (finding,), 0, 0.0)


def _options(location: DataLocation, order: VerifyRequest) -> CheckOptions:
    try:
        schema = _schema(order.schema)
        rules = TextRules(
            encoding=order.encoding,
            columns=order.columns,
            delimiter=order.delimiter,
            schema=schema,
        )
        own = dict(installed())
        for text in order.own:
            ending, equals, name = text.partition("=")
            if not (ending and equals):
                raise ValueError(f"{text!r} is not ENDING=MODULE:FUNCTION")
            own[ending] = load(name)
    except (ValueError, LookupError) as error:
        raise UsageError(str(error)) from error
    return CheckOptions(
        Checks(rules, own, order.allow_empty),
        order.format,
        order.workers or DEFAULT_WORKERS,
        _bad_blocks(location, order.path),
        _decoders(order),
    )


def _decoders(order: VerifyRequest) -> DecoderPool:
    usual = Limits()
    return DecoderPool(
        limits=replace(
            usual,
            memory=order.memory_gib << 30 or usual.memory,
            time_s=order.time_limit_s or usual.time_s,
            silence_s=max(order.time_limit_s, usual.silence_s),
        )
    )


def _schema(text: str) -> dict[str, str]:
    schema = {}
    for part in filter(None, text.split(",")):
        name, colon, kind = part.partition(":")
        if not name or not colon:
            raise ValueError(f"{part!r} is not name:type")
        schema[name.strip()] = kind.strip()
    return schema


def _bad_blocks(location: DataLocation, path: str) -> dict[str, str]:
    """Corrupt files that HDFS lists itself. Only its superuser may ask; other users find out by
    reading."""
    if (
        location.site is None
        or not location.is_on_cluster
        or not location.files.uri.startswith("hdfs:")
    ):
        return {}
    with suppress(HdfsError):
        address = configuration.load(str(location.site.conf_dir)).get(
            "dfs.namenode.http-address", ""
        )
        if not address:
            return {}
        bad = bad_blocks_of_site(location.files.own_path(path), (address,), location.user)
        return {one.path: f"HDFS has no good replica of {one.block}" for one in bad}
    return {}


def _add(location: DataLocation, done: VerifySummary) -> None:
    bad = [report for report in done.reports if report.has_bad_content]
    if not bad:
        return
    blacklist = open_blacklist(location)
    try:
        entries = [proved_entry(location.files, report, location.user) for report in bad]
        added = blacklist.add(entries)
    finally:
        blacklist.close()
    done.added = len(entries)
    if any(not one.is_trusted for one in added):
        done.warnings.append(
            "You have no write access to the data's directory: the new entries only warn."
        )


def write_report(target: DataLocation | None, path: str, done: VerifySummary) -> None:
    """The kept reports as Parquet; ``target`` None: a path of this machine. Raises BadConfig
    without pyarrow."""
    with hdfs_errors(f"writing {path}"):
        report = ParquetReport()
        report.add(done.reports)
        if target is None:
            report.write_local(Path(path))
        else:
            report.write(target.files, path)
