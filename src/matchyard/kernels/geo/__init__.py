"""Loops over the nodes and paths of wireless meshes."""

__all__ = ["disks", "measures", "paths", "spirals", "trees"]
