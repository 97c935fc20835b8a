"""Figures of the papers, run again, judged and drawn."""

__all__ = ["claims", "figures", "geo_plots", "network_plots", "plots", "reproduce"]
