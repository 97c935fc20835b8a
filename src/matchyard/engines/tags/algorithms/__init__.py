"""The algorithms of tags, with the functions of `engine.Algorithm`. Read `rarest` first."""
