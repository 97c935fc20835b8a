"""Which GPU there is, which arrays lie on it, and how a thread launches kernels."""

__all__ = ["compilation", "devices", "lanes", "resident"]
