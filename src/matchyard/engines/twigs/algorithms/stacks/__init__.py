"""Push and pop stacks per node of a twig, on a CPU or GPU [Twigs]. Read `stacks.py` first."""

__all__ = ["gpu", "stacks"]
