"""Splits: the folds of scikit-learn, random parts, scaffolds, and what is refused."""

import pytest
import torch
from sklearn.model_selection import StratifiedKFold

from esan import data
from esan.data import Split
from esan.graphs import cycle


@pytest.mark.parametrize(("folds", "seed"), [(10, 0), (5, 3)])
def test_folds_are_those_of_scikit_learn(folds: int, seed: int) -> None:
    y = torch.tensor([0] * 41 + [1] * 23 + [2] * 12)[torch.randperm(76)]
    splits = data.stratified_folds(y, folds, seed)
    theirs = StratifiedKFold(folds, shuffle=True, random_state=seed).split(y, y)
    for split, (train, valid) in zip(splits, theirs, strict=True):
        assert split.train.tolist() == train.tolist()
        assert split.valid.tolist() == valid.tolist()
        assert split.test.numel() == 0
    assert torch.cat([split.valid for split in splits]).sort().values.tolist() == list(range(76))


def test_a_class_that_would_miss_in_a_fold_is_refused() -> None:
    y = torch.tensor([0] * 40 + [1] * 9)
    with pytest.raises(ValueError, match=r"at least 10 graphs of every class, one per fold \(got 9 of class 1"):
        data.stratified_folds(y)
    assert len(data.stratified_folds(y, 9)) == 9
    with pytest.raises(ValueError, match="Expected one class number per graph"):
        data.stratified_folds(torch.rand(20))
    with pytest.raises(ValueError, match="the number of folds of at least 2"):
        data.stratified_folds(y, 1)
    numbers = data.own([cycle(4), cycle(5)], labels=[0.5, 1.5])
    with pytest.raises(ValueError, match="Expected classes to stratify by"):
        data.stratified_folds(numbers)


def test_random_parts_are_disjoint_and_the_same_for_a_seed() -> None:
    split, again, other = (data.random(1000, seed=seed) for seed in (0, 0, 1))
    assert [part.numel() for part in (split.train, split.valid, split.test)] == [800, 100, 100]
    everyone = torch.cat([split.train, split.valid, split.test])
    assert everyone.sort().values.tolist() == list(range(1000))
    assert torch.equal(split.train, again.train)
    assert not torch.equal(split.train, other.train)
    assert data.random(10, (0.9, 0.1, 0.0)).test.numel() == 0
    # Written down once: a seed means the same split on every machine and in every version.
    assert data.random(10, seed=0).valid.tolist() == [8]


def test_fractions_and_empty_parts_are_refused() -> None:
    for fractions in ((0.8, 0.1, 0.2), (0.0, 0.5, 0.5), (1.1, -0.1, 0.0)):
        with pytest.raises(ValueError, match="that add up to 1"):
            data.random(100, fractions)
    with pytest.raises(ValueError, match=r"\(got 3, of which 5 % leave none for validation\)\. Add graphs"):
        data.random(3, (0.9, 0.05, 0.05))
    with pytest.raises(ValueError, match=r"\(got 2 in own, of which 10 % leave none for validation\)\. Add graphs"):
        data.random(data.own([cycle(4)] * 2, labels=[0.5, 1.5]))


def test_a_class_that_nobody_trains_on_is_refused() -> None:
    dataset = data.own([cycle(4)] * 20, labels=[0] * 19 + [1])
    split = Split(torch.arange(10), torch.arange(10, 20))
    with pytest.raises(ValueError, match=r"Expected every class among the training graphs \(got none of class 1\)"):
        data.check_split(dataset, split)
    with pytest.raises(ValueError, match="training graphs"):
        [data.random(dataset, (0.5, 0.25, 0.25), seed=seed) for seed in range(20)]
    assert data.check_split(dataset, Split(torch.arange(10, 20), torch.arange(10)))


def test_ids_of_a_split_are_checked() -> None:
    dataset = data.own([cycle(4)] * 6, labels=[0, 1] * 3)
    with pytest.raises(ValueError, match=r"ids from 0 to 5 in a split of own \(got 6\)"):
        data.check_split(dataset, Split(torch.arange(4), torch.tensor([6])))
    with pytest.raises(ValueError, match="got graph 3 twice"):
        data.check_split(dataset, Split(torch.arange(4), torch.tensor([3])))
    with pytest.raises(ValueError, match="at least one training graph"):
        data.check_split(dataset, Split(torch.arange(0), torch.tensor([3])))
    with pytest.raises(ValueError, match="Expected train to be a list of graph ids"):
        Split(torch.tensor([True, False]), torch.arange(2))
    with pytest.raises(ValueError, match="got own, which has none"):
        data.given(dataset)
    split = Split(torch.arange(4), torch.tensor([4, 5]))
    assert data.given(data.own([cycle(4)] * 6, labels=[0, 1] * 3, given=split)) is split


def test_scaffolds_stay_together_and_large_ones_train() -> None:
    pytest.importorskip("rdkit")
    benzenes = [f"c1ccccc1{'C' * i}" for i in range(1, 7)]
    pyridines = ["c1ccncc1C", "c1ccncc1CC"]
    smiles = [pyridines[0], *benzenes, "CCO", pyridines[1]]
    split = data.scaffold(smiles, (0.7, 0.1, 0.2))
    assert split.train.tolist() == [1, 2, 3, 4, 5, 6]
    assert split.valid.tolist() == [7], "the pair of pyridines would be one too many"
    assert split.test.tolist() == [0, 8]
    with pytest.raises(ValueError, match=r"got 'C1CC' at place 1, and 0 more"):
        data.scaffold(["CC", "C1CC"])
    with pytest.raises(ValueError, match="got 1 scaffold among 3 molecules, which leave none for training"):
        data.scaffold(["CC", "CCC", "CCCC"])
    with pytest.raises(ValueError, match="read from SMILES"):
        data.scaffold(data.own([cycle(4)] * 6, labels=[0, 1] * 3))
