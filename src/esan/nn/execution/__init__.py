"""How a network runs: replayed as CUDA graphs, as an ensemble, with equal rows once, within memory."""
