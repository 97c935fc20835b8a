"""Streams and processes: what becomes of them when one is forked, ends, or gets no threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

import matchyard as my
from matchyard.index.stream import Stream

INDEX = my.TagIndex().add_many([["a"], ["b"]], [1, 2]).consolidate()


FORKED = """
import os
import matchyard as my

index = my.TagIndex().add("jazz", key=1).consolidate()
with index.stream() as stream:
    print(stream.submit("jazz").result(60), flush=True)
    stream._lock.acquire()  # as a thread may have it that the other process has not
    child = os.fork()
    if child == 0:
        try:
            stream.submit("jazz")
        except my.UsageError as error:
            print(error)
        stream.close()
        with index.stream() as another:
            print(another.submit("jazz").result(60), flush=True)
        os._exit(0)
    stream._lock.release()
    os.waitpid(child, 0)
    print(stream.submit("jazz").result(60))
"""


LEFT_BEHIND = """
import os
from concurrent.futures import wait
import matchyard as my

index = my.TagIndex().add("jazz", key=1).consolidate()
with index.stream(max_delay_ms=60_000) as stream:
    futures = [stream.submit("jazz") for _ in range(3)]
    child = os.fork()
    if child == 0:
        try:
            futures[0].result(60)
        except my.UsageError as error:
            print(str(error)[:23], futures[1].done(), len(wait(futures, 60).done), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print([future.result(60) for future in futures])
"""


NOT_CLOSED = """
import os
import matchyard as my

index = my.TagIndex().add("jazz", key=1).consolidate()
streams = [index.stream(max_delay_ms=60_000) for _ in range(2)]
for stream in streams:
    stream.submit("jazz").add_done_callback(lambda one: os.write(1, f"{one.result()}\\n".encode()))
"""


def test_what_is_pending_is_matched_though_nobody_closes_the_stream() -> None:
    command = [sys.executable, "-c", NOT_CLOSED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.stdout, done.returncode) == ("[1]\n[1]\n", 0), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_is_told_that_a_stream_is_not_its_own() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.splitlines() == ["[1]", "the stream is closed", "[1]", "[1]"], done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_does_not_wait_for_answers_of_its_parent() -> None:
    command = [sys.executable, "-W", "ignore", "-c", LEFT_BEHIND]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.splitlines() == ["this process was forked True 3", "[[1], [1], [1]]"]


def test_a_stream_that_gets_no_threads_is_refused_and_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = threading.active_count()
    n_started = 0
    start = threading.Thread.start

    def some(thread: threading.Thread) -> None:
        nonlocal n_started
        n_started += 1
        if n_started > 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", some)
    with pytest.raises(RuntimeError, match="start new thread"):
        Stream(INDEX, workers=3)
    assert threading.active_count() == before
