"""Choose cards, keep arrays on them, compile kernels and launch them. Read `devices` first."""

__all__ = ["compilation", "devices", "key_writer_gpu", "lanes", "pinned", "resident"]
