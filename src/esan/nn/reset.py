"""Draws the weights of a module again, as `reset_parameters` of PyG's models does."""

from torch import nn
from torch_geometric.nn import MessagePassing


def reset(module: nn.Module) -> None:
    """Call `reset_parameters` of all parts of a module; refused before anything changes if one cannot be reset."""
    parts = [*_parts(module)]
    for part in parts:
        part.reset_parameters()  # type: ignore[operator]


def _parts(module: nn.Module) -> list[nn.Module]:
    """The outermost modules within that know how they are reset."""
    found = []
    for name, part in module.named_children():
        reset_of = getattr(type(part), "reset_parameters", None)
        # That of PyG's base class does nothing.
        if callable(reset_of) and reset_of is not getattr(MessagePassing, "reset_parameters", None):
            found.append(part)
        elif any(True for _ in part.parameters(recurse=False)):
            raise TypeError(
                f"Expected parts with a reset_parameters method (got {type(part).__name__} as {name}, with parameters "
                "of its own). Define the method in it."
            )
        else:
            found += _parts(part)
    return found
