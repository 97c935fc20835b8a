"""Encode documents of any form as signals. Read `intake.py` first."""

__all__ = ["intake", "record_files", "value_tests"]
