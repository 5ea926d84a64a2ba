"""Converts the traces of single papers' repositories to the CSV that ``yarnam sim compare`` reads.

``python tools/convert_trace.py muri trace3.csv jobs.csv``; a trace of Gavel has steps in place of
times and needs ``--rates``, Gavel's file of throughputs.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hdfs_utils.errors import MalformedData
from hdfs_utils.protocols.untrusted import decode_json
from yarnam.client.planning.traces.trace_rows import Row, csv_rows, text_lines

MURI_SLOWER = 1.015
"""Muri's simulator takes an iteration to last this many times what its trace says."""
MAX_RATES_BYTES = 64 << 20


class Job(NamedTuple):
    """The columns of the CSV that these formats fill."""

    job: str
    submit_s: float
    run_s: float
    gpus: int
    model: str = ""


def tiresias(file: BinaryIO) -> Iterator[Job]:
    """The CSVs of Tiresias's simulator."""
    for row in csv_rows(file, ("job_id", "num_gpu", "submit_time", "duration")):
        yield Job(
            row.text("job_id"), row.amount("submit_time"), row.amount("duration"),
            row.count("num_gpu"), row.text("model_name", default=""),
        )  # fmt: skip


def muri(file: BinaryIO) -> Iterator[Job]:
    """The CSVs of Muri's simulator."""
    for row in csv_rows(file, ("job_id", "num_gpu", "submit_time", "iterations", "iteration_time")):
        iteration_s = row.amount("iteration_time", most=1e9) * MURI_SLOWER / 1000
        yield Job(
            row.text("job_id"), row.amount("submit_time", most=1e13) / 1000,
            row.amount("iterations", most=1e12) * iteration_s, row.count("num_gpu"),
            row.text("model_name", default=""),
        )  # fmt: skip


def itp(file: BinaryIO) -> Iterator[Job]:
    """Microsoft's ITP traces, as ElasticFlow has them."""
    for row in csv_rows(file, ("job_id", "submission_time", "duration", "num_gpu")):
        yield Job(
            row.text("job_id"), row.amount("submission_time"), row.amount("duration"),
            row.count("num_gpu"),
        )  # fmt: skip


_GAVEL = ("type", "command", "argument", "needs_data", "steps", "arrival", "gpus")


def gavel(file: BinaryIO, rates: Mapping[str, float]) -> Iterator[Job]:
    """Gavel's .trace files. ``rates``: steps in a second by type of job and GPUs."""
    for number, text in enumerate(text_lines(file), 1):
        fields = text.rstrip("\r\n").split("\t")
        if len(fields) != len(_GAVEL):
            raise MalformedData(f"line {number}: {len(fields)} fields, not {len(_GAVEL)}")
        row = Row(number, dict(zip(_GAVEL, fields, strict=True)))
        kind, gpus = row.text("type"), row.count("gpus", least=1)
        rate = rates.get(f"{kind}/{gpus}")
        if rate is None:
            raise row.wrong(f"the rates have no throughput of {kind!a} on {gpus} GPUs")
        run_s = row.amount("steps", most=1e13) / rate
        yield Job(f"j{number}", row.amount("arrival"), run_s, gpus, kind)


def gavel_rates(data: bytes) -> dict[str, float]:
    """The throughputs of jobs that run alone ("null"), by type and GPUs. Gavel's files have them by
    type of GPU first: V100 is taken, else the first."""
    found: Any = decode_json(data, max_bytes=MAX_RATES_BYTES)
    kinds = found if isinstance(found, Mapping) else {}
    table = kinds["v100"] if "v100" in kinds else next(iter(kinds.values()), None)
    if not isinstance(table, Mapping):
        raise MalformedData("no table of throughputs by type of GPU")
    rates: dict[str, float] = {}
    for key, row in table.items():
        alone = row.get("null") if isinstance(row, Mapping) else row
        if isinstance(alone, (int, float)) and not isinstance(alone, bool) and alone > 0:
            name, comma, gpus = key.strip("()").rpartition(", ")
            rates[f"{name.strip(chr(39))}/{gpus}" if comma else f"{key}/1"] = float(alone)
    return rates


FORMATS: dict[str, Callable[..., Iterator[Job]]] = {
    "tiresias": tiresias, "muri": muri, "itp": itp, "gavel": gavel
}  # fmt: skip


def convert(kind: str, source: Path, target: Path, rates: Path | None = None) -> int:
    """Writes ``target`` anew and returns the number of jobs. Raises MalformedData."""
    given = (gavel_rates(rates.read_bytes()),) if rates else ()
    with source.open("rb") as file, target.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output)
        writer.writerow(Job._fields)
        jobs = 0
        for job in FORMATS[kind](file, *given):
            writer.writerow(job)
            jobs += 1
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("format", choices=FORMATS)
    parser.add_argument("trace", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--rates", type=Path, help="Gavel's file of throughputs")
    given = parser.parse_args()
    if (given.format == "gavel") != (given.rates is not None):
        parser.error("--rates belongs to the format gavel, which needs it")
    try:
        jobs = convert(given.format, given.trace, given.output, given.rates)
    except (OSError, MalformedData) as error:
        sys.exit(f"{given.trace}: {error}")
    print(f"{given.output}: {jobs} jobs")


if __name__ == "__main__":
    main()
