"""Write the documents of a grammar, each from its own stream of random numbers.

The rest of a document is a stack of tasks, so that its depth is not limited by recursion. A document
grows by records. A record that is long enough, or at the depth limit, ends as soon as the grammar
allows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from matchyard.engines.twigs.workload.dtd.content_models import (
    ANY_NUMBER,
    CHOICE,
    NAME,
    ONCE,
    SEQUENCE,
    SOME,
)
from matchyard.engines.twigs.workload.dtd.grammar import ID, VALUE
from matchyard.kernels.hashing import mix64
from matchyard.kernels.random import draw, fraction

_PARTICLE, _AGAIN, _CONTENT, _CLOSE = 0, 1, 2, 3  # tasks
_LINE = 10
_MOST_IDLE = 1000  # a document ends after so many empty records in sequence
_HEADER = np.frombuffer(b'<?xml version="1.0"?>\n', np.uint8)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@njit(nogil=True, cache=True)
def start_stream(seed, row):
    """A stream of random numbers."""
    state = np.empty(1, np.uint64)
    state[0] = draw(seed, row, 0)
    return state


@njit(nogil=True, cache=True)
def next_fraction(state):
    """The next number of a stream, in [0, 1)."""
    state[0] += _GOLDEN
    return fraction(mix64(state[0]))


@njit(nogil=True, cache=True)
def next_below(state, limit):
    """The next number of a stream, an integer in [0, limit)."""
    return np.int64(next_fraction(state) * limit)


@njit(nogil=True, cache=True)
def write_text(texts, number, out, end):
    """Copy a text; returns its end."""
    for i in range(texts.start[number], texts.start[number + 1]):
        out[end] = texts.data[i]
        end += 1
    return end


@njit(nogil=True, cache=True)
def write_drawn(written, template, state, out, end):
    """Write a text that is drawn slot by slot; returns its end."""
    for slot in range(written.slot_start[template], written.slot_start[template + 1]):
        fewest, most = written.slot_fewest[slot], written.slot_most[slot]
        count = fewest
        if most > fewest:
            count += next_below(state, most - fewest + 1)
        pool = written.slot_pool[slot]
        first = written.pool_start[pool]
        n_texts = written.pool_start[pool + 1] - first
        for i in range(count):
            if i:
                out[end] = 32
                end += 1
            chance = next_fraction(state) if n_texts > 1 else 0.0
            end = write_text(written.pool, first + np.int64(chance * chance * n_texts), out, end)
    return end


@njit(nogil=True, cache=True)
def task(action, about):
    """One of four actions and its object as one number."""
    return 4 * np.int64(about) + action


@njit(nogil=True, cache=True)
def _write_number(number, out, end):
    divisor = 1
    while number // divisor >= 10:
        divisor *= 10
    while divisor:
        out[end] = 48 + number // divisor % 10
        end += 1
        divisor //= 10
    return end


@njit(nogil=True, cache=True)
def _open(tags, written, element, state, n_ids, out, end):
    """Write the opening tag of an element; returns its end and the number of identifiers so far."""
    out[end] = 60  # <
    end = write_text(tags.names, element, out, end + 1)
    for i in range(tags.attribute_start[element], tags.attribute_start[element + 1]):
        chance = tags.attribute_chance[i]
        if chance < 1.0 and next_fraction(state) >= chance:
            continue
        out[end] = 32
        end = write_text(tags.attribute_names, i, out, end + 1)
        out[end], out[end + 1] = 61, 34  # ="
        end += 2
        kind = tags.attribute_kind[i]
        if kind == VALUE:
            end = write_drawn(written, tags.attribute_text[i], state, out, end)
        else:
            out[end] = 105  # i
            number = n_ids if kind == ID else next_below(state, max(1, n_ids))
            end = _write_number(number, out, end + 1)
            n_ids += kind == ID
        out[end] = 34
        end += 1
    if tags.model[element] < 0:
        out[end] = 47  # /
        end += 1
    out[end] = 62  # >
    end += 1
    if tags.is_spaced[element]:
        out[end] = _LINE
        end += 1
    return end, n_ids


@njit(nogil=True, cache=True)
def _close(tags, element, out, end):
    """Write the closing tag of an element that is not empty."""
    if tags.model[element] >= 0:
        out[end], out[end + 1] = 60, 47
        end = write_text(tags.names, element, out, end + 2)
        out[end] = 62
        end += 1
    return end


@njit(nogil=True, cache=True)
def _choose(rules, particle, room, is_brief, is_led, state):
    """Choose a part of a choice: the one that leads to growth, one by chance, or the lowest."""
    first, last = rules.part_start[particle], rules.part_start[particle + 1]
    if is_led and rules.is_on_path[particle]:
        for i in range(first, last):
            if rules.is_on_path[rules.parts[i]]:
                return rules.parts[i]
    if not is_brief:
        for _ in range(4):
            chance = next_fraction(state)
            i = first
            while i < last - 1 and chance >= rules.share[i]:
                i += 1
            if rules.height[rules.parts[i]] <= room:
                return rules.parts[i]
    return rules.lowest[particle]


@njit(nogil=True, cache=True)
def _is_taken(rules, particle, is_first, room, is_brief, is_led, state):
    """True if a particle is present, or repeats once more."""
    occurs = rules.occurs[particle]
    if is_first and (occurs in (ONCE, SOME) or (is_led and rules.is_on_path[particle])):
        return True
    if is_brief or rules.height[particle] > room:
        return False
    return next_fraction(state) < rules.chance[particle]


@njit(nogil=True, cache=True)
def _write_document(grammar, state, wanted, record, max_depth, out, start):
    """Write a document of about `wanted` bytes; returns its end, or -1 if it does not fit.

    The stack of tasks is `tasks`. The open elements are in `inside`.
    """
    rules, tags, written = grammar.rules, grammar.tags, grammar.written
    end = start + len(_HEADER)
    if end + grammar.widest > len(out):
        return -1
    out[start:end] = _HEADER
    tasks = np.empty(1024, np.int64)
    inside = np.empty(max_depth + 1, np.int32)
    n_tasks, depth, n_ids = 0, 0, 0
    limit = end + record  # the record ends from here on
    grown_at, grown_to, n_idle = -1, -1, 0  # depth of records, start of the last, empty records
    is_growing = grammar.growing >= 0
    element = 0
    while True:
        if n_tasks + grammar.most_parts + 4 > len(tasks):
            tasks = np.concatenate((tasks, np.empty_like(tasks)))
        if end + grammar.widest > len(out):
            return -1
        if element >= 0:
            end, n_ids = _open(tags, written, element, state, n_ids, out, end)
            inside[depth] = element
            depth += 1
            tasks[n_tasks] = task(_CLOSE, element)
            n_tasks += 1
            if tags.model[element] >= 0:
                tasks[n_tasks] = task(_PARTICLE, tags.model[element])
                n_tasks += 1
            element = -1
        if n_tasks == 0:
            return end
        n_tasks -= 1
        action, about = tasks[n_tasks] & 3, tasks[n_tasks] >> 2
        room, is_brief, is_led = max_depth - depth, end >= limit, is_growing and grown_at < 0
        kind = rules.kind[about]
        if action == _CLOSE:
            end = _close(tags, about, out, end)
            depth -= 1
            if depth == 0 or tags.is_spaced[inside[depth - 1]]:
                out[end] = _LINE
                end += 1
        elif action != _CONTENT:
            if is_growing and about == grammar.growing and (is_led or depth == grown_at):
                grown_at, limit = depth, end + record
                n_idle = n_idle + 1 if end == grown_to else 0
                grown_to = end
                is_growing = is_taken = end - start < wanted and n_idle < _MOST_IDLE
                is_taken = is_taken or (action == _PARTICLE and rules.occurs[about] == SOME)
            else:
                is_first = action == _PARTICLE
                is_taken = _is_taken(rules, about, is_first, room, is_brief, is_led, state)
            if is_taken and rules.occurs[about] >= ANY_NUMBER:
                tasks[n_tasks] = task(_AGAIN, about)
                n_tasks += 1
            if is_taken:
                tasks[n_tasks] = task(_CONTENT, about)
                n_tasks += 1
        elif kind == NAME:
            element = rules.element[about]
        elif kind == SEQUENCE:
            for i in range(rules.part_start[about + 1] - 1, rules.part_start[about] - 1, -1):
                tasks[n_tasks] = task(_PARTICLE, rules.parts[i])
                n_tasks += 1
        elif kind == CHOICE:
            part = _choose(rules, about, room, is_brief, is_led, state)
            tasks[n_tasks] = task(_PARTICLE, part)
            n_tasks += 1
        else:
            end = write_drawn(written, tags.text[rules.element[about]], state, out, end)


@njit(nogil=True, cache=True)
def write_documents(grammar, seed, first, n_documents, wanted, record, max_depth, out):
    """Write documents one after the other; returns their starts and how many of them fit."""
    starts = np.zeros(n_documents + 1, np.int64)
    for i in range(n_documents):
        state = start_stream(seed, first + i)
        end = _write_document(grammar, state, wanted, record, max_depth, out, starts[i])
        if end < 0:
            return starts, i
        starts[i + 1] = end
    return starts, n_documents
