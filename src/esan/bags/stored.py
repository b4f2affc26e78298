"""The rows that a selection is stored as: those of every pair, or those of a compact bag."""

from esan.bags.compact import compact_rows
from esan.bags.literal import literal_bytes, literal_rows
from esan.bags.rows import Rows
from esan.checks import truth_value, whole_number
from esan.graphs import Graphs
from esan.limits import refuse_beyond_memory
from esan.policies import Selection


def stored_rows(graphs: Graphs, selection: Selection, num_layers: int | None, literal: bool | None) -> Rows:
    """The literal rows, or the compact ones for that many layers, which must then be known."""
    if literal is not None and truth_value("literal", literal, "Leave it out for a compact bag."):
        refuse_beyond_memory(
            literal_bytes(graphs, selection),
            f"the literal bag of {selection.num_pairs(graphs):,} pairs",
            "Use the compact bag (leave literal=True out), a Sampled policy, or fewer graphs at a time.",
            graphs.device,
        )
        return literal_rows(graphs, selection)
    remedy = "Pass num_layers=4 for a model of 4 layers, or literal=True."
    if num_layers is None:
        raise ValueError(f"Expected num_layers, the layers of the model, for a compact bag (got None). {remedy}")
    return compact_rows(graphs, selection, whole_number("num_layers", num_layers, 1, remedy))
