"""One module per algorithm, all with the functions of `matchyard.engine.Algorithm`."""
