"""The tests' own accounting of who held GPUs when: it decides what the chaos tests may claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.rm_books import held_at, read_books, seconds_of, shares

PREFIX = "INFO  org.apache.hadoop.yarn.server.resourcemanager.RMAuditLogger: USER=root\t"
APP = "application_1795248701220_0002"


def line(at: str, what: str, number: int, gpus: int = 2) -> str:
    """As Hadoop 3.4.1 writes it."""
    address = "IP=127.0.0.1\t" if what == "Released" else ""
    kind = f", yarn.io/gpu: {gpus}" if gpus else ""
    return (
        f"2026-11-21 08:12:{at} {PREFIX}{address}OPERATION=AM {what} Container\t"
        f"TARGET=SchedulerApp\tRESULT=SUCCESS\tAPPID={APP}\t"
        f"CONTAINERID=container_1795248701220_0002_01_{number:06d}\t"
        f"RESOURCE=<memory:1024, vCores:1{kind}>\tQUEUENAME=root.dl\n"
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A gang of two: one at 10 s, the other at 14 s; one is lost at 20 s and replaced at 22 s; both
    end at 30 and 32 s. The AM's container has no GPUs."""
    path = tmp_path / "rm.log"
    (tmp_path / "rm.log.1").write_text(
        line("09,000", "Allocated", 1, 0)
        + line("10,000", "Allocated", 2)
        + "2026-11-21 08:12:11,000 INFO  something.else: AM Allocated Container\n"
        + line("14,000", "Allocated", 3)
    )
    path.write_text(
        line("20,000", "Released", 2)
        + line("22,000", "Allocated", 4)
        + line("30,000", "Released", 3)
        + line("32,000", "Released", 4)
        + line("33,000", "Released", 1, 0)
    )
    return path


def second(number: float) -> float:
    return seconds_of("2026-11-21 08:12:00,000") + number


def test_containers_live_from_grant_to_end_over_a_rolled_log(log: Path) -> None:
    books = read_books(log)
    assert [(h.gpus, h.from_s - second(0), (h.until_s or 0) - second(0)) for h in books] == [
        (2, 10.0, 20.0),
        (2, 14.0, 30.0),
        (2, 22.0, 32.0),
    ]
    assert [held_at(books, APP, second(s)) for s in (9, 12, 15, 21, 25, 31, 40)] == [
        0, 2, 4, 2, 4, 2, 0,
    ]  # fmt: skip
    assert held_at(books, APP, second(21), slack_s=2.0) == 4
    assert held_at(books, "application_1_1", second(15)) == 0


def test_a_gang_waits_for_the_others_until_it_is_complete_for_the_last_time(log: Path) -> None:
    """Incomplete: 10 to 14 s and 20 to 22 s with two GPUs. The last two seconds are its end."""
    found = shares(read_books(log), {APP: 4}, second(60))
    assert found.held_gpu_s == pytest.approx(2 * 10 + 2 * 16 + 2 * 10)
    assert found.incomplete_gpu_s == pytest.approx(2 * 4 + 2 * 2)
    assert "16.7%" in str(found)


def test_a_gang_that_never_stood_waits_all_the_time(log: Path) -> None:
    found = shares(read_books(log), {APP: 6}, second(60))
    assert found.incomplete_share == pytest.approx(1.0)


def test_what_has_no_end_counts_until_now(tmp_path: Path) -> None:
    log = tmp_path / "rm.log"
    log.write_text(line("10,000", "Allocated", 2))
    books = read_books(log)
    assert books[0].until_s is None
    assert shares(books, {APP: 2}, second(15)).held_gpu_s == pytest.approx(10.0)
