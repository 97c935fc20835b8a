"""Sort numbers in place, within a kernel. `np.sort` takes Numba a second to compile."""

from __future__ import annotations

from numba import njit

_SHORT = 48  # numbers up to which insertion sort is faster


@njit(nogil=True, cache=True)
def sort_numbers(numbers, start, end):
    """Sort numbers[start:end], the smallest first."""
    if end - start > _SHORT:
        _sort_by_heap(numbers, start, end)
        return
    for i in range(start + 1, end):
        number, j = numbers[i], i - 1
        while j >= start and numbers[j] > number:
            numbers[j + 1] = numbers[j]
            j -= 1
        numbers[j + 1] = number


@njit(nogil=True, cache=True)
def _sort_by_heap(numbers, start, end):
    for parent in range((end - start) // 2 - 1, -1, -1):
        _sink(numbers, start, parent, end - start)
    for last in range(end - start - 1, 0, -1):
        numbers[start], numbers[start + last] = numbers[start + last], numbers[start]
        _sink(numbers, start, 0, last)


@njit(nogil=True, cache=True)
def _sink(numbers, start, parent, size):
    """Move a number down the heap until both of its children are smaller."""
    number = numbers[start + parent]
    while True:
        child = 2 * parent + 1
        if child >= size:
            break
        if child + 1 < size and numbers[start + child + 1] > numbers[start + child]:
            child += 1
        if numbers[start + child] <= number:
            break
        numbers[start + parent] = numbers[start + child]
        parent = child
    numbers[start + parent] = number
