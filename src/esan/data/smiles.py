"""SMILES → graphs with features as in OGB, and the scaffolds of molecules (needs the extra `molecules`)."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from esan.graphs.readers.graph_arrays import GraphArrays

#: Longer SMILES are taken as unreadable: RDKit's time grows with the square of the rings.
MOST_CHARACTERS = 5_000

_EXTRA = "Install the extra: pip install 'esan[molecules]'."


def molecules(smiles: Sequence[str]) -> list[Any]:
    """RDKit's molecule of each, None where RDKit does not read it, finds no atom, or would take far too long."""
    try:
        from rdkit import Chem, rdBase
    except ImportError as error:
        raise ImportError(f"Expected RDKit, which reads SMILES (got none: {error}). {_EXTRA}") from None

    # RDKit writes each complaint to the terminal; the caller reports them with their lines.
    silence = rdBase.BlockLogs()
    try:
        found = [Chem.MolFromSmiles(text) if len(text) <= MOST_CHARACTERS else None for text in smiles]
    finally:
        del silence
    return [molecule if molecule is not None and molecule.GetNumAtoms() else None for molecule in found]


def molecule_arrays(found: Sequence[Any]) -> GraphArrays:
    """The graphs of molecules: atoms with nine features, bonds with three, as OGB's `smiles2graph` makes them."""
    atom_features, bond_features = _feature_makers()
    atoms = [[atom_features(atom) for atom in molecule.GetAtoms()] for molecule in found]
    bonds = [list(molecule.GetBonds()) for molecule in found]
    ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for one in bonds for bond in one]
    features = [bond_features(bond) for one in bonds for bond in one]
    edges = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return GraphArrays(
        num_nodes=np.array([len(one) for one in atoms]),
        num_directed_edges=np.array([2 * len(one) for one in bonds]),
        edge_index=np.stack([edges, edges[:, ::-1]], 1).reshape(-1, 2).T,
        x=np.array([features for one in atoms for features in one], dtype=np.int64),
        edge_attr=np.repeat(np.array(features, dtype=np.int64).reshape(-1, 3), 2, axis=0),
    )


def scaffolds(smiles: Sequence[str], chirality: bool = False) -> list[str]:
    """The Bemis-Murcko scaffold of each molecule, rings and what links them, without stereochemistry."""
    found = molecules(smiles)
    bad = [place for place, molecule in enumerate(found) if molecule is None]
    if bad:
        raise ValueError(
            f"Expected SMILES that RDKit reads (got {smiles[bad[0]]!r} at place {bad[0]}, and {len(bad) - 1} more). "
            "Correct them or leave them out."
        )
    from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

    return [MurckoScaffoldSmiles(mol=molecule, includeChirality=chirality) for molecule in found]


def _feature_makers() -> tuple[Callable[[Any], list[int]], Callable[[Any], list[int]]]:
    """OGB's features of an atom and of a bond, each computed once for all that are alike in what it looks at."""
    try:
        with warnings.catch_warnings():  # ogb looks for a newer version of itself, and warns where there is no network
            warnings.simplefilter("ignore")
            from ogb.utils.features import atom_to_feature_vector, bond_to_feature_vector
    except ImportError as error:
        raise ImportError(f"Expected ogb, which names the features of atoms (got none: {error}). {_EXTRA}") from None
    atoms: dict[Any, list[int]] = {}
    bonds: dict[Any, list[int]] = {}

    def of_atom(atom: Any) -> list[int]:
        seen = (
            atom.GetAtomicNum(),
            atom.GetChiralTag(),
            atom.GetTotalDegree(),
            atom.GetFormalCharge(),
            atom.GetTotalNumHs(),
            atom.GetNumRadicalElectrons(),
            atom.GetHybridization(),
            atom.GetIsAromatic(),
            atom.IsInRing(),
        )
        if seen not in atoms:
            atoms[seen] = atom_to_feature_vector(atom)
        return atoms[seen]

    def of_bond(bond: Any) -> list[int]:
        seen = (bond.GetBondType(), bond.GetStereo(), bond.GetIsConjugated())
        if seen not in bonds:
            bonds[seen] = bond_to_feature_vector(bond)
        return bonds[seen]

    return of_atom, of_bond
