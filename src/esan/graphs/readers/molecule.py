"""A molecule written as "smiles:CCO" → its graph: atoms with their elements, bonds with their kinds (needs RDKit)."""

from typing import Any

import torch
from torch_geometric.data import Data

from esan.checks import shown

#: What the text of a molecule begins with; SMILES alone could be read as graph6.
SMILES = "smiles:"
#: Longer texts are refused: RDKit's time grows with the square of the rings.
_MOST_CHARACTERS = 2_000


def molecule(text: str) -> Data:
    """The heavy atoms and bonds of a molecule: `x` is the atomic number, `edge_attr` is 1, 2, 3, or 4 if aromatic.

    Args:
        text: SMILES behind "smiles:".
    """
    found = _parsed(text)
    order = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3, "AROMATIC": 4}
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), bond) for bond in found.GetBonds()]
    ends = torch.tensor([[u, v] for u, v, _ in bonds], dtype=torch.long).reshape(-1, 2)
    kinds = torch.tensor([order.get(str(bond.GetBondType()), 5) for _, _, bond in bonds], dtype=torch.long)
    return Data(
        edge_index=torch.cat([ends, ends.flip(1)]).t().contiguous(),
        edge_attr=kinds.repeat(2)[:, None],
        x=torch.tensor([[atom.GetAtomicNum()] for atom in found.GetAtoms()]),
        num_nodes=found.GetNumAtoms(),
    )


def atom_symbols(text: str) -> list[str]:
    """The element of each atom, e.g. ["C", "C", "O"]."""
    return [atom.GetSymbol() for atom in _parsed(text).GetAtoms()]


def atom_places(text: str) -> list[tuple[float, float]]:
    """Where chemists draw each atom: RDKit's coordinates in the plane."""
    from rdkit.Chem import rdDepictor

    found = _parsed(text)
    rdDepictor.SetPreferCoordGen(False)
    rdDepictor.Compute2DCoords(found)
    positions = found.GetConformer().GetPositions()
    return [(float(x), float(y)) for x, y, _ in positions]


def _parsed(text: str) -> Any:
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise ImportError(
            f"Expected RDKit, which reads SMILES (got none: {error}). Install the extra: pip install 'esan[molecules]'."
        ) from None
    smiles = text.removeprefix(SMILES).strip()
    if len(smiles) > _MOST_CHARACTERS:
        raise ValueError(f"Expected SMILES of at most {_MOST_CHARACTERS:,} characters (got {len(smiles):,}).")
    # RDKit writes its complaints to the terminal; here they are an error.
    silence = rdBase.BlockLogs()
    try:
        found = Chem.MolFromSmiles(smiles)
    finally:
        del silence
    if found is None or not found.GetNumAtoms():
        raise ValueError(f"Expected SMILES that RDKit reads (got {shown(smiles)}). Write e.g. {SMILES}c1ccccc1O.")
    return found
