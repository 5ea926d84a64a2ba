"""Keeps the directory of ``checkpoint.mirror`` on HDFS while the processes run, and brings it back
before they start. ``mirror_machine`` decides; what needs a client of HDFS is done by another
process (``mirror_process``), one at a time and for a set only, so that the agent stays small."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from yarnam.agent.data.own_programs import start_program
from yarnam.agent.launch.process_activity import tree
from yarnam.agent.machine import mirror_machine as mm
from yarnam.agent.machine.agent_directives import Launch
from yarnam.agent.task_config import TaskJob
from yarnam.core.model.ids import PRE_RUN_ROLE
from yarnam.core.model.job_spec import MIRROR_RESTORE_S

_LOG = logging.getLogger("yarnam.agent")

MODULE = "yarnam.agent.data.mirror_process"

MAX_FILES = 10_000
"""In the mirrored directory: with this many a scan takes 0.2 s of CPU, and a set's manifest has
some MB."""

MAX_DEPTH = 32
"""Of directories in it: each is held open while those below are scanned."""

SCAN_SHARE = 0.02
"""The scans of a directory with many files take at most this share of one core."""

RESTORE_TRIES, RESTORE_PAUSE_S = 3, 10.0

SEND_LIMIT_S, LEAST_RATE = 600.0, 1 << 20
"""A set that takes longer than this at this rate, in bytes per second, hangs: it is tried again."""

CLOSE_S = 1.0
"""For the process that sends, once it is not wanted any more."""


class MirrorPlan(NamedTuple):
    """What one task keeps. ``request`` is the constant part of a ``MirrorRequest``."""

    work: Path
    """The working directory of the processes."""
    path: str
    """The mirrored directory, relative to it."""
    request: Mapping[str, Any]
    max_bytes: int = 0
    """The most that the directory may hold to be kept; 0 if nothing limits it."""

    @property
    def local(self) -> Path:
        return self.work / self.path


def mirror_plan(
    job: TaskJob, launch: Launch, env: Mapping[str, str], work: Path
) -> MirrorPlan | None:
    """The plan of this launch; ``None`` if its task keeps no files. ``env`` is that of its first
    process."""
    ranks = sorted(process.rank for process in launch.processes)
    directory, token = env.get("YARNAM_CHECKPOINT_DIR"), env.get("YARNAM_CHECKPOINT_TOKEN")
    if not (job.mirror and directory and token and ranks):
        return None
    if ranks[0] and not job.is_each_mirrored:
        return None
    request = {
        "directory": directory,
        "token": token,
        "first": ranks[0],
        "last": ranks[-1],
        "world_size": 0 if launch.members else int(env.get("YARNAM_WORLD_SIZE", "0")),
        "is_each": job.is_each_mirrored,
        "keep": job.keep,
        "restore": "none" if launch.role == PRE_RUN_ROLE else job.restore,
    }
    return MirrorPlan(work, job.mirror, request, job.mirror_max_bytes)


class CheckpointMirror:
    """The mirror of one launch. ``notify`` is called when there is news for the AM."""

    def __init__(
        self, plan: MirrorPlan, env: Mapping[str, str], notify: Callable[[], object]
    ) -> None:
        self.plan = plan
        self.state = mm.MirrorState()
        self._env = dict(env)
        self._notify = notify
        self._process: asyncio.subprocess.Process | None = None
        self._has_ended = asyncio.Event()
        self._one = asyncio.Lock()
        self._scan_s = 0.0
        self._is_restoring = False
        self._may_help = True
        """Whether another try of the last set may succeed."""

    # ---- before the processes ------------------------------------------------------------

    async def restore(self) -> str:
        """Bring the newest set back, if the directory is empty. Returns why it cannot; empty if it
        can, or there is none."""
        plan = self.plan
        try:
            is_empty = make_directory(plan.work, plan.path)
        except OSError as error:
            return f"checkpoint.mirror: {plan.path}: {error.strerror or error}"
        if not is_empty:
            _LOG.warning("%s is not empty: nothing is restored into it", plan.path)
            return ""
        answer: Mapping[str, Any] = {}
        self._is_restoring = True
        for number in range(RESTORE_TRIES):
            await self._sleep(RESTORE_PAUSE_S if number else 0.0)
            if self._has_ended.is_set():
                return "stopped before its files were restored"
            answer = await self._ask({"files": None}, MIRROR_RESTORE_S)
            if "problem" not in answer:
                break
        self._is_restoring = False
        if "problem" in answer:
            return f"checkpoint.mirror: {plan.path} is not restored: {answer['problem']}"
        if "restored" in answer:
            restored = mm.KeptSet(**answer["restored"])
            _LOG.info("%s is restored from set %d", plan.path, restored.number)
            files = scan_directory(plan.work, plan.path, 0).files
            content = {file.name: file.version for file in files}
            self.state = mm.MirrorState(content=content, kept=restored)
        return ""

    def stop_restoring(self) -> None:
        """The processes are not to start any more."""
        if self._is_restoring:
            self._has_ended.set()
            if self._process is not None and self._process.returncode is None:
                self._process.kill()

    async def _sleep(self, pause_s: float) -> None:
        """Or less, once the mirror is to end."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._has_ended.wait(), pause_s)

    # ---- while they run ------------------------------------------------------------------

    async def run(self, root_pid: int, has_failed: Callable[[], bool]) -> None:
        """Scan and send until ``finish`` is called. ``root_pid``: the ancestor of the processes.
        Once one of them ``has_failed``, half of a save may lie there."""
        while not self._has_ended.is_set():
            if not has_failed():
                await self._round(root_pid)
            pause_s = max(mm.SCAN_S, self._scan_s / SCAN_SHARE)
            await self._sleep(pause_s)

    async def finish(self, limit_s: float, *, has_succeeded: bool) -> None:
        """The processes have ended: keep what they saved last, for ``limit_s`` at most."""
        self._has_ended.set()
        try:
            await asyncio.wait_for(self._finish(has_succeeded), limit_s)
        except asyncio.TimeoutError:
            text = f"the last save was not kept within {limit_s:.0f} s of the end"
            _LOG.warning("%s: %s", self.plan.path, text)
            self._take(self.state._replace(trouble=text))
        await self.close()

    async def _finish(self, has_succeeded: bool) -> None:
        while await self._round(0, is_last=True, has_succeeded=has_succeeded):
            if self.state.problem and not self._may_help:
                break
            if self.state.problem:
                await asyncio.sleep(mm.RETRY_FIRST_S)

    async def close(self) -> None:
        """End a transfer; its set does not exist then."""
        self._has_ended.set()
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), CLOSE_S)

    async def _round(
        self, root_pid: int, *, is_last: bool = False, has_succeeded: bool = False
    ) -> bool:
        """One scan, and the set that it leads to; whether there was one."""
        plan = self.plan
        async with self._one:
            began_s = time.monotonic()
            scan = await asyncio.to_thread(scan_directory, plan.work, plan.path, root_pid)
            scan = within_limit(plan, scan)
            scan = scan._replace(is_last=is_last, has_succeeded=has_succeeded)
            state, files = mm.scanned(self.state, scan)
            self._scan_s = time.monotonic() - began_s
            self._take(state)
            if files:
                await self._send(files)
            return bool(files)

    async def _send(self, files: tuple[mm.ScannedFile, ...]) -> None:
        plain = [[file.name, *file.version, file.is_open] for file in files]
        size = sum(file.version.size for file in files)
        answer = await self._ask({"files": plain}, SEND_LIMIT_S + size / LEAST_RATE)
        now_s = time.monotonic()
        if "kept" in answer:
            new = mm.KeptSet(**answer["kept"])
            _LOG.info("%s: set %d of %d files is kept", self.plan.path, new.number, new.files)
            self._take(mm.kept(self.state, files, new, now_s))
        elif "unproved" in answer:
            self._take(mm.unproved(self.state, answer["unproved"], answer["endless"]))
        elif "changed" in answer:
            self._take(mm.changed(self.state, answer["changed"]))
        else:
            text, is_over = answer["problem"], bool(answer.get("is_over"))
            self._may_help = bool(answer.get("may_help", True))
            _LOG.warning("%s is not kept: %s", self.plan.path, text)
            self._take(mm.failed(self.state, text, now_s, is_over=is_over))

    def _take(self, state: mm.MirrorState) -> None:
        before, self.state = self.state, state
        if (before.kept, before.trouble) != (state.kept, state.trouble):
            self._notify()

    # ---- the process that has a client of HDFS --------------------------------------------

    async def _ask(self, part: Mapping[str, Any], limit_s: float) -> Mapping[str, Any]:
        """The answer; a problem of the node's own is one too, and ends no training."""
        try:
            return await self._talk_to_sender(part, limit_s)
        except (OSError, ValueError) as error:
            return {"problem": f"the process that sends: {error}"}

    async def _talk_to_sender(self, part: Mapping[str, Any], limit_s: float) -> Mapping[str, Any]:
        request = json.dumps({"local": str(self.plan.local), **self.plan.request, **part})
        pipe = asyncio.subprocess.PIPE
        process = await start_program(MODULE, env=self._env, stdin=pipe, stdout=pipe)
        self._process = process
        try:
            reply = process.communicate(request.encode())
            printed, _ = await asyncio.wait_for(reply, limit_s)
            answer = json.loads(printed) if process.returncode == 0 else None
        except asyncio.TimeoutError:
            return {"problem": f"HDFS did not take it within {limit_s:.0f} s"}
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self._process = None
        if not isinstance(answer, dict):
            return {"problem": f"the process that sends ended with {process.returncode}"}
        return answer


# ---- the directory -----------------------------------------------------------------------------


def within_limit(plan: MirrorPlan, scan: mm.Scan) -> mm.Scan:
    """The scan, or the problem that there is too much to keep."""
    size = sum(file.version.size for file in scan.files)
    if not plan.max_bytes or size <= plan.max_bytes:
        return scan
    text = (
        f"{plan.path} holds {size / 2**20:.0f} MiB, more than the {plan.max_bytes / 2**20:.0f} MiB "
        "that are kept (notebook.max_size): move data out of it"
    )
    return mm.Scan(scan.at_s, (), text)


def make_directory(work: Path, path: str) -> bool:
    """Make the directory that is mirrored, and see whether it is empty. Raises OSError: a part of
    its path is a link or a file, such as one that came with the job's code."""
    directory = work
    for part in path.split("/"):
        directory /= part
        with suppress(FileExistsError):
            directory.mkdir()
        if not stat.S_ISDIR(directory.lstat().st_mode):
            raise NotADirectoryError(
                0,
                f"{part} is not a directory of the job's own: a file, or a part of what the job "
                "brings along; leave it out there (.yarnamignore) or name another directory",
            )
    with os.scandir(directory) as entries:
        return next(entries, None) is None


def scan_directory(work: Path, path: str, root_pid: int) -> mm.Scan:
    """The regular files of the mirrored directory. Links are not followed. ``root_pid``: the
    process whose descendants may write there; 0 if none is left."""
    files: list[mm.ScannedFile] = []
    problem = ""
    try:
        descriptor = _open_directory(work, path)
    except OSError as error:
        # It comes back, or the program has no use for it any more: the last set stays.
        text = "" if isinstance(error, FileNotFoundError) else f"{path}: {error.strerror}"
        return mm.Scan(time.monotonic(), (), text)
    try:
        for number, found in enumerate(_entries_below(descriptor, "", 0)):
            if number >= MAX_FILES:
                problem = f"{path} has more than {MAX_FILES} entries"
                break
            if found is not None:
                files.append(found)
    except OSError as error:
        problem = f"{path}: {error.strerror or error}"
    finally:
        os.close(descriptor)
    is_open: set[str] = set()
    if files and root_pid:
        is_open = _open_for_writing(tree(root_pid), f"{os.path.realpath(work)}/{path}/")
    marked = (file._replace(is_open=file.name in is_open) for file in files)
    return mm.Scan(time.monotonic(), () if problem else tuple(marked), problem)


def _open_directory(work: Path, path: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(work, flags)
    for part in path.split("/"):
        try:
            below = os.open(part, flags, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _entries_below(descriptor: int, prefix: str, depth: int) -> Iterator[mm.ScannedFile | None]:
    """``None`` stands for what is not a file."""
    if depth > MAX_DEPTH:
        raise OSError(0, f"directories are nested more than {MAX_DEPTH} deep")
    with os.scandir(descriptor) as entries:
        for entry in entries:
            name = prefix + entry.name
            if entry.is_dir(follow_symlinks=False):
                yield None
                with suppress(FileNotFoundError):
                    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                    below = os.open(entry.name, flags, dir_fd=descriptor)
                    try:
                        yield from _entries_below(below, f"{name}/", depth + 1)
                    finally:
                        os.close(below)
            else:
                yield _scanned_file(entry, name)


def _scanned_file(entry: os.DirEntry[str], name: str) -> mm.ScannedFile | None:
    try:
        name.encode()  # a manifest is UTF-8
        found = entry.stat(follow_symlinks=False)
    except (FileNotFoundError, UnicodeEncodeError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    version = mm.FileVersion(found.st_size, found.st_mtime_ns, found.st_ino)
    return mm.ScannedFile(name, version)


def _open_for_writing(pids: Iterable[int], root: str) -> set[str]:
    """Names below ``root`` that one of these processes has open for writing."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    path = os.readlink(entry.path)  # noqa: PTH115 - thousands of them
                    if path.startswith(root) and _may_write(pid, entry.name):
                        found.add(path[len(root) :])
    return found


def _may_write(pid: int, descriptor: str) -> bool:
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return bool(int(value, 8) & os.O_ACCMODE)
    return False
