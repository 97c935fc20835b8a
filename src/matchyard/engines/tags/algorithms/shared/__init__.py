"""Parts that several algorithms of tag sets share."""

__all__ = ["signed_sets", "signed_sets_gpu", "small_batch_gpu", "sorted_pairs_gpu"]
