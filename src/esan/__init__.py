"""esan: subgraph graph neural networks."""
