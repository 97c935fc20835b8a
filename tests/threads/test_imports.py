"""Imports after the first: none of them may be interrupted, since Ctrl-C can leave Python's import lock taken."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading
import matchyard as my

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            print(name)

sys.meta_path.insert(0, Watch())
index = {index}
assert index.match([{event}])[0] == [1]
assert index.match([{event}, {event}]).to_lists() == [[1], [1]]
"""


@pytest.mark.parametrize(
    ("index", "event"),
    [
        ('my.TagIndex().add("jazz", 1).consolidate()', '"jazz"'),
        ('my.PredicateIndex().add("a = 1", 1).consolidate()', '{"a": 1}'),
        ('my.TwigIndex().add("//a", 1).consolidate()', '"<a/>"'),
    ],
)
def test_the_main_thread_imports_nothing_after_the_package(index: str, event: str) -> None:
    script = SCRIPT.replace("{index}", index).replace("{event}", event)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    assert done.stdout.decode().split() == []
