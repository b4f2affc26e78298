"""Reads and checks the fields of PyG data: edge_index, x, edge_attr, edge_weight, and y with what it is about."""

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from esan.checks import shown, whole_number
from esan.graphs.collection import Level
from esan.plural import counted


def edge_index(data: Data, where: str) -> Tensor:
    """`edge_index` of the data, empty if it has none; `where` names the data in errors, here and below."""
    columns = data.get("edge_index")
    if columns is None:
        _check_held_elsewhere(data, where)
        return torch.empty(2, 0, dtype=torch.long, device=data.x.device if isinstance(data.x, Tensor) else None)
    if not isinstance(columns, Tensor) or columns.dim() != 2 or columns.size(0) != 2:
        got = tuple(columns.shape) if isinstance(columns, Tensor) else type(columns).__name__
        raise ValueError(f"Expected edge_index of shape [2, edges] (got {got} in {where}). Transpose or convert it.")
    check_numbers(columns, "edge_index", where)
    if columns.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"Expected edge_index of integers (got {columns.dtype} in {where}). Call .long() on it.")
    return columns.long()


def _check_held_elsewhere(data: Data, where: str) -> None:
    for name, transform in (("adj_t", "T.ToSparseTensor"), ("adj", "T.ToDense")):
        if data.get(name) is not None:
            raise ValueError(
                f"Expected the edges in edge_index (got {name} and no edge_index in {where}). Leave {transform} out of "
                "the transforms."
            )


def count_nodes(data: Data, columns: Tensor, where: str) -> int:
    """The number of nodes: rows of x, or num_nodes, or the largest number in `columns` plus 1."""
    if data.x is not None:
        _check_tensor(data.x, "x", "node", where)
        n = data.x.size(0)
        if "num_nodes" in data and _num_nodes(data, where) != n:
            raise ValueError(
                f"Expected one row of x per node (got {n} rows and num_nodes={shown(data.get('num_nodes'))} in "
                f"{where}). Make them agree."
            )
    elif "num_nodes" in data:
        n = _num_nodes(data, where)
    else:
        n = int(columns.max()) + 1 if columns.numel() else 0
    if n == 0:
        raise ValueError(
            f"Expected graphs with at least one node (got none in {where}). Leave it out, or set x or num_nodes."
        )
    return n


def _num_nodes(data: Data, where: str) -> int:
    # Some transforms store a tensor of one number.
    value = data.get("num_nodes")
    if isinstance(value, Tensor) and value.numel() == 1 and value.dtype in (torch.int64, torch.int32):
        check_numbers(value, "num_nodes", where)
        value = int(value)
    value = 0 if value is None else value
    return whole_number(f"num_nodes of {where}", value, 0, "Set it to how many nodes there are, or leave it out.")


def node_features(data: Data, nodes: int, where: str) -> Tensor | None:
    """x, one row per node."""
    return _rows(data.x, nodes, "x", "node", where)


def edge_features(data: Data, edges: int, where: str) -> Tensor | None:
    """edge_attr, one row per column of edge_index."""
    return _rows(data.edge_attr, edges, "edge_attr", "column of edge_index", where)


def edge_weights(data: Data, edges: int, where: str) -> Tensor | None:
    """edge_weight, one number per column of edge_index."""
    weight = _rows(data.get("edge_weight"), edges, "edge_weight", "column of edge_index", where)
    if weight is None:
        return None
    if weight.dim() != 1:
        raise ValueError(
            f"Expected edge_weight with one number per column of edge_index (got shape {tuple(weight.shape)} in "
            f"{where}). Pass several as edge_attr."
        )
    if weight.requires_grad:
        raise ValueError(
            f"Expected edge_weight to be constant (got one that requires grad in {where}). Detach it, or pass it as "
            "edge_attr."
        )
    return weight if weight.is_floating_point() else weight.to(torch.get_default_dtype())


def _rows(value: Any, rows: int, name: str, what: str, where: str) -> Tensor | None:
    if value is None:
        return None
    _check_tensor(value, name, what, where)
    if value.size(0) != rows:
        raise ValueError(
            f"Expected one row of {name} per {what}, {rows} in all (got shape {tuple(value.shape)} in {where}). "
            f"Give every {what} its row."
        )
    return value


def _check_tensor(value: Any, name: str, what: str, where: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"Expected {name} to be a tensor (got {type(value).__name__} in {where}). Convert it.")
    check_numbers(value, name, where)
    if value.dim() == 0:
        raise ValueError(
            f"Expected one row of {name} per {what} (got one number in {where}). Give every {what} its row."
        )


def check_numbers(value: Tensor, name: str, where: str) -> None:
    """An error for tensors without values (meta), and for quantized, nested or sparse ones."""
    if value.device.type == "meta":
        raise TypeError(
            f"Expected {name} with numbers in it (got a tensor on the device meta in {where}). Make it on another one."
        )
    if value.is_quantized:
        raise TypeError(f"Expected {name} of plain numbers (got {value.dtype} in {where}). Call dequantize() on it.")
    if value.is_nested:
        raise TypeError(f"Expected {name} as one tensor (got a nested one in {where}). Call to_padded_tensor on it.")
    if value.layout != torch.strided and name == "edge_index":
        kind = str(value.layout).removeprefix("torch.")
        raise TypeError(f"Expected {name} to be a dense tensor (got {kind} in {where}). Call to_dense() on it.")


def target(value: Any, where: str) -> Tensor | None:
    """y as a tensor, from a tensor, a number or a list of numbers."""
    if value is None:
        return None
    try:
        y = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(
            f"Expected y to be a tensor or numbers (got {shown(value, 40)} in {where}). Encode classes as 0, 1, 2, ..."
        ) from None
    check_numbers(y, "y", where)
    if y.layout != torch.strided:
        kind = str(y.layout).removeprefix("torch.")
        raise TypeError(f"Expected y to be a dense tensor (got {kind} in {where}). Call to_dense() on it.")
    if y.is_complex():
        raise TypeError(
            f"Expected y of real numbers (got {y.dtype} in {where}). Give real and imaginary parts as two columns."
        )
    return y


def concatenate(values: list[Tensor | None], name: str) -> Tensor | None:
    """The values of all graphs, which must have one width; None if no graph has any."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    if len(present) < len(values):
        missing = next(place for place, value in enumerate(values) if value is None)
        raise ValueError(f"Expected {name} on every graph or on none (got none on graph {missing}). Add it there.")
    for place, value in enumerate(present):
        if value.layout != torch.strided or value.is_complex():
            sparse = value.layout != torch.strided
            kind = str(value.layout).removeprefix("torch.") if sparse else "complex numbers"
            remedy = "Call to_dense() on it." if sparse else "Give real and imaginary parts as two columns."
            raise TypeError(
                f"Expected {name} to be a dense tensor of real numbers (got {kind} on graph {place}). {remedy}"
            )
        if value.shape[1:] != present[0].shape[1:]:
            raise ValueError(
                f"Expected {name} of one width (got {tuple(present[0].shape[1:])} on graph 0 and "
                f"{tuple(value.shape[1:])} on graph {place}). Give all graphs the same features."
            )
    values_of_all = torch.cat(present)
    _check_finite(values_of_all, name)
    return values_of_all


def _check_finite(value: Tensor, name: str) -> None:
    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
        where = int((~torch.isfinite(value)).reshape(value.size(0), -1).any(1).nonzero()[0])
        raise ValueError(
            f"Expected finite numbers in {name} (got {value[where].tolist()} at line {where} of all graphs together). "
            "Fill or drop missing values first."
        )


def targets(values: list[Tensor | None], num_nodes: Tensor, num_directed_edges: Tensor) -> tuple[Tensor | None, Level]:
    """The targets of all graphs, and whether they are of graphs, nodes or edges."""
    present = [value.reshape(1) if value.dim() == 0 else value for value in values if value is not None]
    if not present:
        return None, "graph"
    if len(present) < len(values):
        missing = next(place for place, value in enumerate(values) if value is None)
        raise ValueError(f"Expected y on every graph or on none (got none on graph {missing}). Label it.")
    if len(present) == num_nodes.numel():
        lengths = torch.tensor([value.size(0) for value in present], device=num_nodes.device)
        candidates: list[tuple[Level, Tensor]] = [
            ("graph", torch.ones_like(num_nodes)),
            ("node", num_nodes),
            ("edge", num_directed_edges),
        ]
    else:
        lengths = torch.tensor([present[0].size(0)], device=num_nodes.device)
        graphs = torch.tensor([num_nodes.numel()], device=num_nodes.device)
        candidates = [("graph", graphs), ("node", num_nodes.sum(0, True)), ("edge", num_directed_edges.sum(0, True))]
    odd = next((place for place, value in enumerate(present) if value.shape[1:] != present[0].shape[1:]), None)
    if odd is not None:
        shape, first = list(present[odd].shape), list(present[0].shape)
        raise ValueError(
            f"Expected y of one width on all graphs (got shape {shape} on graph {odd}, {first} on graph 0). Give every "
            "graph as many targets, NaN for those that are missing."
        )
    for level, expected in candidates:
        if torch.equal(lengths, expected):
            # NaN is allowed in y: in multi-task sets it marks a missing label.
            return torch.cat(present), level
    fits = torch.stack([lengths == expected for _, expected in candidates])  # one row per level
    if bool(fits.any(0).all()):
        raise _mixed([level for level, _ in candidates], fits)
    bad = int((~fits.any(0)).nonzero()[0])
    # The y of a batch is one tensor: which graph has too many rows is unknown.
    where = f"on graph {bad}" if len(present) == num_nodes.numel() else "in the batch"
    raise ValueError(
        "Expected y with one row per graph, node or column of edge_index (got "
        f"{counted(int(lengths[bad]), 'row')} {where}). Give each graph one row: y of shape [1] or [1, tasks]."
    )


def _mixed(levels: list[Level], fits: Tensor) -> ValueError:
    """The error if the labels of each graph fit some level, but no level fits all; names the most frequent one."""
    words = {"graph": "one row", "node": "one row per node", "edge": "one row per column of edge_index"}
    most = int(fits.sum(1).argmax())
    one, odd = int(fits[most].nonzero()[0]), int((~fits[most]).nonzero()[0])
    there = levels[int(fits[:, odd].nonzero()[0])]
    return ValueError(
        "Expected y to be about graphs, about nodes or about edges, on all graphs alike (got "
        f"{words[levels[most]]} on graph {one}, but {words[there]} on graph {odd}). Label all graphs in one way."
    )
