"""esan: subgraph graph neural networks (Equivariant Subgraph Aggregation Networks, ICLR 2022), exact and fast.

`import esan` loads nothing else; each name is imported on first use, because PyTorch Geometric takes seconds to import.
"""

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import takes a tenth of the start of the command line

if TYPE_CHECKING:
    from esan import bags as bags
    from esan import data as data
    from esan import explore as explore
    from esan import graphs as graphs
    from esan import nn as nn
    from esan import ops as ops
    from esan import policies as policies
    from esan import report as report
    from esan import testing as testing
    from esan import train as train
    from esan import wl as wl
    from esan.bags import Bag as Bag
    from esan.bags import Loader as Loader
    from esan.nn import ATOMS as ATOMS
    from esan.nn import BONDS as BONDS
    from esan.nn import Categories as Categories
    from esan.nn import Ensemble as Ensemble
    from esan.nn import OneHot as OneHot
    from esan.nn import ds_gnn as ds_gnn
    from esan.nn import dss_gnn as dss_gnn
    from esan.nn import estimate as estimate
    from esan.ops import reference as reference
    from esan.policies import Augmented as Augmented
    from esan.policies import EdgeDeletion as EdgeDeletion
    from esan.policies import EgoNets as EgoNets
    from esan.policies import NodeDeletion as NodeDeletion
    from esan.policies import NodeMarking as NodeMarking
    from esan.policies import Policy as Policy
    from esan.policies import Sampled as Sampled
    from esan.policies import Selection as Selection
    from esan.policies import SingleEdges as SingleEdges
    from esan.policies import Whole as Whole
    from esan.policies import policy_named as policy_named
    from esan.steps import step as step
    from esan.train import fit as fit
    from esan.version import __version__ as __version__

#: The public names by the module that each is imported from: the same list as above, for the interpreter.
_EXPORTS: dict[str, tuple[str, ...]] = {
    "esan": ("bags", "data", "explore", "graphs", "nn", "ops", "policies", "report", "testing", "train", "wl"),
    "esan.bags": ("Bag", "Loader"),
    "esan.nn": ("ATOMS", "BONDS", "Categories", "Ensemble", "OneHot", "ds_gnn", "dss_gnn", "estimate"),
    "esan.ops": ("reference",),
    "esan.policies": (
        *("Augmented", "EdgeDeletion", "EgoNets", "NodeDeletion", "NodeMarking", "Policy", "Sampled", "Selection"),
        *("SingleEdges", "Whole", "policy_named"),
    ),
    "esan.steps": ("step",),
    "esan.train": ("fit",),
    "esan.version": ("__version__",),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = tuple(_HOME)


if not TYPE_CHECKING:  # a checker that saw this would accept every name

    def __getattr__(name: str) -> object:
        """A public name, imported on first use (PEP 562)."""
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'esan' has no attribute {name!r}")
        value = import_module(f"esan.{name}") if home == "esan" else getattr(import_module(home), name)
        globals()[name] = value  # the next look-up is a plain one
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
