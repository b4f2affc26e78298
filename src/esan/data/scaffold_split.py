"""The scaffold split: molecules with the same scaffold stay in one part; rare scaffolds go to the test part."""

from collections import defaultdict
from collections.abc import Sequence

import torch

from esan.checks import truth_value
from esan.data.dataset import Dataset, Split
from esan.data.smiles import scaffolds
from esan.data.splits import Fractions, checked_fractions
from esan.plural import counted


def scaffold(
    smiles: Dataset | Sequence[str], fractions: Fractions = (0.8, 0.1, 0.1), *, chirality: bool = False
) -> Split:
    """The deterministic split of MoleculeNet and OGB by Bemis-Murcko scaffolds; ids in each part are sorted.

    Scaffolds come in descending order of size, then of the number of their first molecule. Each goes to the training
    part while that stays within its fraction, else to validation while both stay within theirs, else to the test.

    Args:
        smiles: the molecules, or a dataset that was read from SMILES.
        fractions: of training, validation and test molecules; they add up to 1.
        chirality: whether scaffolds that are mirror images differ, as in OGB's split of moltox21, not of molhiv.
    """
    if isinstance(smiles, Dataset):
        if smiles.smiles is None:
            raise ValueError(
                f"Expected a dataset that was read from SMILES (got {smiles.name}, which was not). "
                "Pass the SMILES themselves, or use its given split or random."
            )
        smiles = smiles.smiles
    if not len(smiles) or isinstance(smiles, str):
        raise ValueError(f"Expected a list of SMILES (got {smiles!r}). Pass one molecule per graph.")
    train_share, valid_share, _ = checked_fractions(fractions)
    groups: dict[str, list[int]] = defaultdict(list)
    for place, core in enumerate(scaffolds(smiles, truth_value("chirality", chirality, "Pass True or False."))):
        groups[core].append(place)
    most_train, most_valid = train_share * len(smiles), (train_share + valid_share) * len(smiles)
    train: list[int] = []
    valid: list[int] = []
    test: list[int] = []
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if len(train) + len(group) <= most_train:
            train += group
        elif len(train) + len(valid) + len(group) <= most_valid:
            valid += group
        else:
            test += group
    for name, part, share in (("training", train, train_share), ("validation", valid, valid_share)):
        if share > 0 and not part:
            raise ValueError(
                f"Expected enough scaffolds for each part of a split (got {counted(len(groups), 'scaffold')} among "
                f"{counted(len(smiles), 'molecule')}, which leave none for {name}). Add molecules, or split them at "
                "random."
            )
    return Split(*(torch.tensor(sorted(part), dtype=torch.long) for part in (train, valid, test)))
