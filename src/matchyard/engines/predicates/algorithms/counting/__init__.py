"""Count the satisfied constraints of each filter [CCM]. Read `counting` first, then `gpu`."""

__all__ = ["counting", "gpu"]
