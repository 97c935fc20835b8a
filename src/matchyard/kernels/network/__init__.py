"""Loops over packets and the trees that they travel on."""

__all__ = ["clock", "forwarding", "packets", "subtrees"]
