"""State dicts of earlier versions, whose encoders of features had other names, load into the networks of this one."""

import pytest
import torch

import esan
import strategies

POLICY = esan.NodeMarking()
#: The names of submodules in this version and in those before 0.2, in the order in which they are replaced.
OLD_NAMES = [
    ("edge_encoder.encoder.", "edges.lines."),
    ("features.encoder.", "features.lines."),
    ("edge_encoder.", "edges."),
]


def _old(name: str) -> str:
    for new, old in OLD_NAMES:
        name = name.replace(new, old)
    return name


@pytest.mark.parametrize("conv", ["gine", "gcn", "ppgn"])
def test_old_names_load(conv: str) -> None:
    first, second = (strategies.model("dss", conv, POLICY, width=4, num_layers=1) for _ in range(2))
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.normal_()
    state = {_old(name): value for name, value in first.state_dict().items()}
    assert any(".lines." in name or ".edges." in name for name in state)
    assert state.keys() != first.state_dict().keys()
    second.load_state_dict(state)
    for name, value in first.state_dict().items():
        assert torch.equal(second.state_dict()[name], value), name
