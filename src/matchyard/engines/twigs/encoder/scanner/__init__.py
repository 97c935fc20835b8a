"""A scanner of XML text that writes signals; expat decides where it cannot."""

__all__ = ["characters", "markup", "scanner"]
