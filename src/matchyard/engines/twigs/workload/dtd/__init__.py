"""Document type definitions: how they are read, and the grammar in them."""

__all__ = ["content_models", "definition", "grammar"]
