"""Documents of any form as signals."""

__all__ = ["intake", "record_files", "value_tests"]
