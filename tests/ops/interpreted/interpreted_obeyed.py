"""Interpreted: what users put on or into modules is called, where the layers are Triton's kernels."""

import pytest
import torch

import esan
import strategies
from esan.testing import assert_obeyed
from interpreting import ONLY_INTERPRETED

pytestmark = ONLY_INTERPRETED
POLICY = esan.NodeMarking()
LAYER = "encoder.layers.0"


@pytest.mark.parametrize(
    ("change", "module"),
    [
        ("forward hook", LAYER),
        pytest.param("forward hook", f"{LAYER}.shared.edge_encoder.encoder.tables.0", marks=pytest.mark.exhaustive),
        pytest.param("full backward hook", f"{LAYER}.inside.mlp.first", marks=pytest.mark.exhaustive),
        pytest.param("subclass", f"{LAYER}.inside", marks=pytest.mark.exhaustive),
        pytest.param("replacement that scales", f"{LAYER}.norm", marks=pytest.mark.exhaustive),
        pytest.param("forward of its own", "features", marks=pytest.mark.exhaustive),
    ],
)
def test_changes(change: str, module: str) -> None:
    # Wider than 16, where kernels pad rows with columns of zeros.
    model = strategies.model("dss", "gine", POLICY, width=18, num_layers=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.rand_like(parameter))
    graphs = strategies.odd_graphs()[4:5]
    assert_obeyed(model.float(), graphs, POLICY, modules=[module], changes=[change], training=[True])
