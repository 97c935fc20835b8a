"""Write a drawn twig as XPath: all children of a node except the last are predicates.

Siblings are in the order of their labels, so that equal twigs have equal texts.
"""

from __future__ import annotations

from numba import njit

from matchyard.engines.twigs.workload.documents import (
    next_below,
    next_fraction,
    task,
    write_drawn,
    write_text,
)
from matchyard.engines.twigs.workload.dtd.grammar import VALUE

_NAMED, _IN_PREDICATE, _END, _END_NOT = 0, 1, 2, 3  # tasks of the writer


@njit(nogil=True, cache=True)
def n_tests(tags, written, element):
    """How many values of an element can be tested: attributes, and a text of one slot."""
    count = tags.attribute_start[element + 1] - tags.attribute_start[element]
    return count + _has_plain_text(tags, written, element)


@njit(nogil=True, cache=True)
def _is_plain(written, template):
    """True if a template is one text of one pool."""
    slot = written.slot_start[template]
    return written.slot_start[template + 1] == slot + 1 and written.slot_most[slot] == 1


@njit(nogil=True, cache=True)
def _has_plain_text(tags, written, element):
    has_text = tags.model[element] >= 0 and not tags.is_spaced[element]
    return has_text and _is_plain(written, tags.text[element])


@njit(nogil=True, cache=True)
def _next_child(shape, walk, parent, before):
    """The child that comes next, or -1: in the order of labels, but negated ones first."""
    best = -1
    for node in range(1, shape.nodes):
        if walk.parent[node] != parent:
            continue
        is_after = before < 0 or _precedes(walk, before, node)
        if is_after and (best < 0 or _precedes(walk, node, best)):
            best = node
    return best


@njit(nogil=True, cache=True)
def _precedes(walk, one, other):
    if walk.is_negated[one] != walk.is_negated[other]:
        return walk.is_negated[one]
    return walk.label[one] < walk.label[other]


@njit(nogil=True, cache=True)
def _write_bytes(text, out, end):
    for i in range(len(text)):
        out[end] = ord(text[i])
        end += 1
    return end


@njit(nogil=True, cache=True)
def _write_test(tags, written, element, state, out, end):
    """Write a test of an attribute or text: that it exists, equals a text, or compares a number."""
    first = tags.attribute_start[element]
    chosen = next_below(state, n_tests(tags, written, element))
    template, is_value = tags.text[element], True
    if first + chosen < tags.attribute_start[element + 1]:
        end = _write_bytes("[@", out, end)
        end = write_text(tags.attribute_names, first + chosen, out, end)
        template = tags.attribute_text[first + chosen]
        is_value = tags.attribute_kind[first + chosen] == VALUE and _is_plain(written, template)
        is_value = is_value and next_fraction(state) < 0.5
    else:
        end = _write_bytes("[.", out, end)
    if not is_value:
        return _write_bytes("]", out, end)
    if written.is_number[written.slot_pool[written.slot_start[template]]]:
        is_less = next_fraction(state) < 0.5
        end = _write_bytes(" < " if is_less else " >= ", out, end)
        end = write_drawn(written, template, state, out, end)
        return _write_bytes("]", out, end)
    end = _write_bytes(' = "', out, end)
    end = write_drawn(written, template, state, out, end)
    return _write_bytes('"]', out, end)


@njit(nogil=True, cache=True)
def write_twig(tags, written, shape, walk, tasks, state, out, end):
    """Write a twig; returns its end."""
    n_tasks = 1
    tasks[0] = task(_NAMED, 0)
    while n_tasks:
        n_tasks -= 1
        action, node = tasks[n_tasks] & 3, tasks[n_tasks] >> 2
        if action >= _END:
            end = _write_bytes("]" if action == _END else ")]", out, end)
            continue
        if action == _NAMED:
            end = _write_bytes("//" if walk.is_descendant[node] else "/", out, end)
        else:
            end = _write_bytes("[not(" if walk.is_negated[node] else "[", out, end)
            end = _write_bytes(".//" if walk.is_descendant[node] else "", out, end)
        if walk.is_any[node]:
            end = _write_bytes("*", out, end)
        else:
            end = write_text(tags.names, walk.element[node], out, end)
        if walk.is_tested[node]:
            end = _write_test(tags, written, walk.element[node], state, out, end)
        first_task, child = n_tasks, _next_child(shape, walk, node, -1)
        while child >= 0:
            later = _next_child(shape, walk, node, child)
            if later >= 0:
                tasks[n_tasks] = task(_IN_PREDICATE, child)
                tasks[n_tasks + 1] = task(_END_NOT if walk.is_negated[child] else _END, child)
                n_tasks += 2
            else:
                tasks[n_tasks] = task(_NAMED, child)
                n_tasks += 1
            child = later
        tasks[first_task:n_tasks] = tasks[first_task:n_tasks][::-1].copy()
    return end
