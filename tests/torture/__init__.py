"""Attacks on the library: `make torture`, or `python -m tests.torture --help`.

    kills      processes that are killed while they save, append and consolidate
    flips      one byte of a saved index is changed
    crafted    indexes whose files are wrong on purpose, under right checksums
    disks      a disk that is full, a folder that is read-only, a file-size limit
    journal    power cuts, kills and damage of a file of records
    fuzz       hostile text, JSON and XML, compared with the oracle
    changes    add, remove, consolidate, save and open in any order, against a plain list
    threads    readers beside live changes, saves and opens
    saves      save and reopen, while four threads add, replace and remove
    signals    Ctrl-C at any moment, and forks while another thread compiles
    memory     many opens and closes

Every attack counts tries that were lost (an acknowledged change is gone), wrong (undamaged data
give another answer than the oracle), crashed (a dead process, or an exception that is no
MatchyardError) or hung. A seed repeats all of them. `test_torture.py` is the short form for every
test run; those of `journal` and `saves` are `tests/storage/test_journal.py` and
`tests/index/test_save_while_changing.py`.
"""
