"""Code that all algorithms of twigs share. Read `stored_twigs.py`."""

__all__ = ["stored_twigs"]
