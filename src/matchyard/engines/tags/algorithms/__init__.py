"""One module per algorithm, all with the same functions: see `matchyard.engine.Algorithm`."""
