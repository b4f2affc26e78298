"""Interpreted: the paper's recipes train in ensembles as they do batch after batch."""

import pytest
import torch

import ensembles
import esan
from ensemble_cases import Trial
from esan.train import named
from esan.train.engines import engine_factory
from esan.train.engines.objective import Objective
from interpreting import ONLY_INTERPRETED, use_reference_layout
from paper_forms import FORMS, task_of

pytestmark = [ONLY_INTERPRETED, pytest.mark.exhaustive]
#: Every kind of input, readout, head and loss that a recipe of the paper has.
RECIPES = (
    "mutag/gin",
    "mutag/ds-gin-ego+",
    "mutag/dss-gin-ed",
    "mutag/graphconv",
    "mutag/ds-graphconv-nd",
    "mutag/dss-graphconv-ego+",
    "imdb-b/gin",
    "imdb-b/ds-gin-nd",
    "imdb-b/dss-gin-ed",
    "csl/gin",
    "csl/ds-gin-ego",
    "csl/dss-gin-ego+",
    "exp/ds-gin-nd",
    "exp/dss-gin-ego+",
    "zinc/gin",
    "zinc/ds-gin-ego+",
    "zinc/dss-gin-nd",
    "ogbg-moltox21/gin",
    "ogbg-moltox21/ds-gin-ego+",
    "ogbg-moltox21/dss-gin-ed",
)


@pytest.fixture(autouse=True)
def _reference_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    use_reference_layout(monkeypatch)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Wider than 16, where kernels pad rows with columns of zeros.
    recipe = named(name).variant(hidden_channels=20, set_channels=4, num_layers=2, dropout=0.0)
    form, task = FORMS[recipe.data], task_of(recipe)
    graphs = form.graphs()
    for i, graph in enumerate(graphs):
        classes = torch.tensor([i % task.out_channels])
        graph.y = classes if task.kind == "classification" else torch.tensor([[float(i % 2)] * task.out_channels])
    model = form.network(recipe)
    bag = esan.Bag.of(graphs, recipe.policy, model.num_layers + model.encoder.lookahead)
    with monkeypatch.context() as on_gpu:
        on_gpu.setattr(engine_factory, "model_device", lambda model: torch.device("cuda"))
        assert engine_factory.supports_ensemble(model, bag)
    monkeypatch.setattr(engine_factory, "supports_ensemble", lambda model, bag: True)
    ids = torch.arange(len(graphs))
    trial = Trial(bag, lambda: form.network(recipe), 2, ids[1:3], ids[:1], torch.device("cpu"), Objective(task.kind))
    ensembles.check_eager(trial, 1e-4, epochs=1)
