"""Events one by one, matched in batches: what comes out, and what happens when something is wrong."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import matchyard as my
from matchyard.errors import DeviceError, EventError
from matchyard.index.futures import Answer
from matchyard.index.stream import Stream
from matchyard.matches import Matches

INDEX = my.TagIndex().add_many([["a"], ["b"], ["a", "b"]], [1, 2, 3]).consolidate()


class Recorder:
    """An index that notes the sizes of batches, and matches when it is let."""

    def __init__(self, index: Any) -> None:
        self.index, self.sizes = index, []  # type: ignore[var-annotated]
        self.may_match = threading.Event()
        self.may_match.set()
        self.failure: BaseException | None = None

    def match(self, events: Any, threads: int | None = None) -> Matches:
        self.may_match.wait()
        self.sizes.append(len(events))
        if self.failure is not None:
            raise self.failure
        found: Matches = self.index.match(events, threads)
        return found


@pytest.mark.parametrize("max_batch", [1, 7, 4096])
def test_events_from_many_threads_get_their_own_keys(max_batch: int) -> None:
    wanted = {"a": [1], "b": [2], "a b": [1, 2, 3], "c": []}
    found: list[tuple[str, Future[list[Any]]]] = []
    with INDEX.stream(max_batch, max_delay_ms=1) as stream:

        def work(shift: int) -> None:
            for number in range(200):
                event = list(wanted)[(number + shift) % 4]
                found.append((event, stream.submit(event)))

        threads = [threading.Thread(target=work, args=(shift,)) for shift in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 800
    assert all(sorted(future.result()) == wanted[event] for event, future in found)


def test_a_batch_is_full_or_old_enough() -> None:
    recorder = Recorder(INDEX)
    with Stream(recorder, max_batch=10, max_delay_ms=60_000) as stream:
        full = [stream.submit("a") for _ in range(10)]
        assert [future.result(timeout=30) for future in full] == [[1]] * 10
        assert recorder.sizes == [10]
        left = [stream.submit("b") for _ in range(3)]
        with pytest.raises(TimeoutError):
            left[0].result(timeout=0.05)
    assert [future.result() for future in left] == [[2]] * 3  # closing does not wait for the delay
    assert recorder.sizes == [10, 3]
    with Stream(recorder, max_batch=10, max_delay_ms=0) as stream:
        assert stream.submit("a").result(timeout=30) == [1]


def test_what_comes_while_workers_are_busy_goes_together() -> None:
    recorder = Recorder(INDEX)
    recorder.may_match.clear()
    with Stream(recorder, max_batch=100, max_delay_ms=0, workers=1) as stream:
        first = stream.submit("a")
        futures = [stream.submit("a") for _ in range(50)]
        recorder.may_match.set()
        assert [future.result(timeout=30) for future in (first, *futures)] == [[1]] * 51
    assert len(recorder.sizes) <= 4
    assert max(recorder.sizes) > 10


def test_no_batch_is_larger_than_it_may_be() -> None:
    recorder = Recorder(INDEX)
    with Stream(recorder, max_batch=7, max_delay_ms=0) as stream:
        many = stream.submit("a")
        many.add_done_callback(
            lambda _: [stream.submit("a") for _ in range(100)]
        )  # which never wait
        many.result(timeout=30)
    assert sum(recorder.sizes) > 1
    assert max(recorder.sizes) <= 7


def test_submit_waits_where_too_many_events_do() -> None:
    recorder, done, submitted = Recorder(INDEX), threading.Event(), []
    recorder.may_match.clear()
    with Stream(recorder, max_batch=2, max_delay_ms=0, workers=1) as stream:

        def work() -> None:
            for _ in range(40):
                submitted.append(stream.submit("a"))
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.2)
        assert (
            3 <= len(submitted) <= 4
        )  # a batch that is matched, of one event or two, and one more
        recorder.may_match.set()
        thread.join(30)
    assert done.is_set()
    assert sum(recorder.sizes) == 40


def test_an_event_that_is_refused_fails_alone() -> None:
    index = my.TwigIndex().add("//a", key=1).consolidate()
    with index.stream(max_batch=64, max_delay_ms=50) as stream:
        futures = [stream.submit(text) for text in ("<a/>", "<a>", "<b><a/></b>", "<", "<b/>")]
    assert [futures[i].result() for i in (0, 2, 4)] == [[1], [1], []]
    for number in (1, 3):
        with pytest.raises(my.MatchyardError, match="document 0 "):
            futures[number].result()


def test_the_number_of_a_bad_event_spares_a_search_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    index, sizes = my.PredicateIndex().add("x > 1", key=1).consolidate(), []
    match = index.match

    def noted(events: Any, threads: int) -> my.Matches:
        sizes.append(len(events))
        return match(events, threads)

    monkeypatch.setattr(index, "match", noted)
    with index.stream(max_batch=64, max_delay_ms=5000) as stream:
        futures = [stream.submit("{" if i == 40 else {"x": i}) for i in range(64)]
        with pytest.raises(my.ParseError, match="event 0 is not JSON at byte 1"):
            futures[40].result()
    assert [future.result() for i, future in enumerate(futures) if i != 40] == [
        [1] if i > 1 else [] for i in range(64) if i != 40
    ]
    assert sorted(sizes) == [11, 12, 40, 64]


def test_a_whole_batch_may_be_bad() -> None:
    index = my.TwigIndex().add("//a", key=1).consolidate()
    with index.stream(max_batch=4096, max_delay_ms=60_000) as stream:
        futures = [stream.submit("<a/>" if i % 1000 == 7 else "{}") for i in range(4096)]
        done = [future.exception(timeout=120) for future in futures]
    assert [i for i, error in enumerate(done) if error is None] == [7, 1007, 2007, 3007, 4007]
    assert {str(error)[:10] for error in done if error is not None} == {"document 0"}


def test_an_error_of_the_result_reaches_everyone_in_the_batch() -> None:
    class Unreadable:
        def match(self, events: Any, threads: int | None = None) -> Any:
            return self

        def to_lists(self) -> Any:
            raise MemoryError("too many keys")

    with Stream(Unreadable(), max_delay_ms=0) as stream, pytest.raises(MemoryError):
        stream.submit("a").result(timeout=30)


@pytest.mark.parametrize("found", [SystemExit(), [[1]] * 3, EventError("event {event}", 99)])
def test_whatever_an_index_does_events_are_answered(found: Any) -> None:
    class Odd:
        def match(self, events: Any, threads: int | None = None) -> Any:
            if isinstance(found, BaseException):
                raise found
            return self

        def to_lists(self) -> Any:
            return found

    with Stream(Odd(), max_delay_ms=0) as stream:
        assert stream.submit("a").exception(timeout=30) is not None


def test_an_idle_stream_keeps_nothing() -> None:
    with INDEX.stream(max_delay_ms=0) as stream:
        future = stream.submit("a")
        future.result(timeout=30)
        kept = weakref.ref(future)
        del future
        for _ in range(1000):
            if kept() is None:
                break
            threading.Event().wait(0.01)
        assert kept() is None


def test_a_stream_whose_worker_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = INDEX.stream(max_delay_ms=float("inf"), max_batch=2)

    def fail(n_events: int) -> None:
        monkeypatch.undo()
        raise RuntimeError("a fault")

    monkeypatch.setattr(stream, "_taken", fail)
    futures: list[Any] = [stream.submit("a")]
    with stream._lock:  # nothing is taken before there is more than a batch
        futures += [Answer("a") for _ in range(3)]
        stream._pending += futures[1:]
        stream._whole.append(Answer(["a"]))
        futures.append(stream._whole[0])
        stream._wake.ring()
    for future in futures:
        with pytest.raises(RuntimeError, match="a fault"):
            future.result(timeout=30)
    for submit in (stream.submit, stream.submit_many):
        with pytest.raises(my.UsageError, match="closed"):
            submit("a")
    stream.close()


def test_an_event_of_the_wrong_kind_fails_alone() -> None:
    with INDEX.stream(max_batch=64, max_delay_ms=50) as stream:
        futures = [stream.submit(event) for event in ("a", 17, ["a", "b"], "b")]
    assert sorted(futures[2].result()) == [1, 2, 3]
    assert [futures[i].result() for i in (0, 3)] == [[1], [2]]
    with pytest.raises(my.MatchyardError):
        futures[1].result()


def test_a_fault_of_the_device_reaches_everyone_in_the_batch() -> None:
    recorder = Recorder(INDEX)
    recorder.failure = DeviceError("events 0 to 2: the GPU failed")
    with Stream(recorder, max_batch=3, max_delay_ms=60_000) as stream:
        futures = [stream.submit("a") for _ in range(3)]
        for future in futures:
            with pytest.raises(DeviceError, match="events 0 to 2"):
                future.result(timeout=30)
        recorder.failure = None
        assert [stream.submit("a") for _ in range(3)][2].result(timeout=30) == [1]
    assert recorder.sizes == [3, 3]


def test_a_batch_may_be_submitted_as_it_is_and_an_event_taken_back() -> None:
    recorder = Recorder(INDEX)
    recorder.may_match.clear()
    with Stream(recorder, max_delay_ms=0, workers=1) as stream:
        stream.submit("a")
        taken_back = stream.submit("b")
        assert taken_back.cancel()
        many = stream.submit_many([["a"], ["a", "b"]])
        recorder.may_match.set()
        assert [sorted(keys) for keys in many.result(timeout=30)] == [[1], [1, 2, 3]]
    assert taken_back.cancelled()


def test_a_closed_stream_takes_nothing() -> None:
    stream = INDEX.stream()
    stream.close()
    stream.close()
    for submit in (stream.submit, stream.submit_many):
        with pytest.raises(my.UsageError, match="closed"):
            submit("a")


@pytest.mark.parametrize(
    "settings",
    [
        (0, 1, 1),
        (1, -1, 1),
        (1, 1, 0),
        (1, float("nan"), 1),
        (100.0, 1, 1),
        (1, 1, 2.5),
        (1, "2", 1),
        (1, None, 1),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any) -> None:
    with pytest.raises(my.UsageError):
        INDEX.stream(*settings)


def test_the_code_about_it_in_the_documents_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "streams.md").read_text("utf-8")
    block = text.split("## In one process")[1].split("```python\n")[1].split("```")[0]
    index = my.TagIndex().add("jazz", key=1).consolidate()
    namespace: dict[str, Any] = {"index": index, "events": [["jazz"], ["rock"]]}
    exec(compile(block, "streams.md", "exec"), namespace)
    assert namespace["future"].result() == [1]
