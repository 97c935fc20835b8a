"""Run a job with progress reports, and cancel it if its caller stops waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from matchyard.spark.checks import plain_errors

_LOOK_S = 0.2  # seconds between polls of the job
_WHAT = "matchyard: collect"


class _Stage(NamedTuple):
    """The progress of a stage, in tasks."""

    done: int = 0
    total: int = 0
    is_running: bool = False


def collect(frame: DataFrame, progress: Callable[[int, int], None] | None = None) -> pa.Table:
    """All rows of a frame as an Arrow table. `progress` gets the number of finished tasks and of all
    tasks, both of the largest stage. Ctrl-C cancels the job.

    >>> collect(frame, lambda done, total: print(f"{done} of {total}"))  # doctest: +SKIP
    """
    watch = _watch(frame.sparkSession)

    def job() -> pa.Table:
        watch.begin()
        try:
            return frame.toArrow()
        finally:
            watch.end()

    # The job runs in another thread, so that this thread receives Ctrl-C.
    with plain_errors(), ThreadPoolExecutor(1) as pool:
        running = pool.submit(job)
        try:
            total = _follow(watch, running, progress)
        except BaseException:
            while not running.done():  # repeatedly: the job may not have begun yet
                watch.cancel()
                wait([running], _LOOK_S)
            raise
        table = running.result()
        if progress is not None:
            progress(total or len(table), total or len(table))
        return table


def _follow(
    watch: _Watch, running: Future[pa.Table], progress: Callable[[int, int], None] | None
) -> int:
    """Report progress until the job ends; return the number of tasks."""
    last = _Stage()
    while not wait([running], _LOOK_S).done:
        now = _largest(watch.stages()) if progress is not None else last
        # A complete stage of a running job has only read the rows for a larger stage.
        if progress is not None and now[:2] != last[:2] and now.done < now.total:
            progress(now.done, now.total)
        last = now
    return _largest([last, *watch.stages()]).total


def _largest(stages: Iterable[_Stage]) -> _Stage:
    """The largest stage. If a later job skips a stage that ran before, prefer the one that ran."""
    return max(stages, key=lambda one: (one.total, one.is_running, one.done), default=_Stage())


# -------------------------------------------------------------------- classic and Connect


class _Watch(Protocol):
    """Follows the jobs that one thread starts."""

    def begin(self) -> None:
        """Follow the jobs of this thread."""

    def end(self) -> None:
        """Stop following."""

    def stages(self) -> list[_Stage]:
        """The known stages."""

    def cancel(self) -> None:
        """Cancel the running jobs."""


def _watch(spark: SparkSession) -> _Watch:
    is_connect = type(spark).__module__.startswith("pyspark.sql.connect")
    return _Connect(spark) if is_connect else _Classic(spark)


class _Classic:
    def __init__(self, spark: SparkSession) -> None:
        self._context, self._group = spark.sparkContext, f"matchyard-{uuid4()}"

    def begin(self) -> None:
        self._context.setJobGroup(self._group, _WHAT)

    def end(self) -> None:
        pass  # the group ends with its thread

    def stages(self) -> list[_Stage]:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        return [
            _Stage(one.numCompletedTasks, one.numTasks, one.numActiveTasks > 0)
            for one in stages
            if one
        ]

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)


class _Connect:
    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._tag = spark, f"matchyard-{uuid4()}"
        self._thread, self._stages = 0, list[_Stage]()

    def begin(self) -> None:
        self._thread = threading.get_ident()
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._hear)

    def end(self) -> None:
        self._spark.removeProgressHandler(self._hear)
        self._spark.removeTag(self._tag)

    def stages(self) -> list[_Stage]:
        return self._stages

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def _hear(self, stages: Iterable[Any] | None, **_: Any) -> None:
        """Record the server's progress report; Connect calls this in the thread of each job."""
        if threading.get_ident() == self._thread:
            self._stages = [
                _Stage(one.num_completed_tasks, one.num_tasks, not one.done) for one in stages or ()
            ]
