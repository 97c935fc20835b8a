"""Read document type definitions and compile their grammars. Read `definition.py` first."""

__all__ = ["content_models", "definition", "grammar"]
