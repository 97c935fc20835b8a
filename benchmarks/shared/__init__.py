"""Code that several figures and large runs share: steps to measure, sweeps, judges and networks."""
