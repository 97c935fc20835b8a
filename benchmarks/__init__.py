"""Measurements of a checkout: figures of the papers, and large runs. Not part of the wheel."""
