"""One module or folder per algorithm, with the functions of `matchyard.engine.Algorithm`.

Read `counting/counting.py` first: it is the simplest. `tiles` is the default.
"""
