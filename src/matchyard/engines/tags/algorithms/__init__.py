"""The algorithms of tags, all with the functions of `matchyard.engine.Algorithm`. Read `rarest` first."""
