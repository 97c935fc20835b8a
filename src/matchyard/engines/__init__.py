"""One folder per engine, with the same files in each."""
