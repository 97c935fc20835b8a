"""The algorithms of twigs, a folder each. Read `stacks/stacks.py` first: it is the simplest."""
