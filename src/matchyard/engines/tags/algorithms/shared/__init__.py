"""Parts that several algorithms of tags share. Read `signed_sets` first."""

__all__ = ["signed_sets", "signed_sets_gpu", "small_batch_gpu", "sorted_pairs_gpu"]
