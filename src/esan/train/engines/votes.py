"""Votes: the predictions of several samples of a bag as one, and how much they differ."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Voted:
    """What the votes on each graph come to.

    Attributes:
        prediction: scores of classes or labels, or numbers, `[G, C]`.
        spread: how much the votes differ; of classes the part that is not for the winner, `[G, 1]`; of labels the
            deviation of their probability, and of numbers that of the numbers, `[G, T]`. None where there was one vote.
    """

    prediction: Tensor
    spread: Tensor | None


def voted(votes: Tensor, kind: str) -> Voted:
    """Majority of classes, mean of numbers and of the scores of labels.

    Args:
        votes: what the network gave for each sample, `[votes, G, C]`.
        kind: of the task.
    """
    if votes.size(0) == 1:
        return Voted(votes[0], None)
    if kind == "classification":
        classes = votes.size(2)
        shares = torch.nn.functional.one_hot(votes.argmax(2), classes).to(votes.dtype).mean(0)
        # Less than one vote: the mean probability decides among classes with as many votes, and nothing else.
        scores = shares + votes.softmax(2).mean(0) / (2 * votes.size(0))
        won = shares.gather(1, scores.argmax(1, keepdim=True))
        return Voted(scores, 1 - won)
    told = votes.sigmoid() if kind == "labels" else votes
    return Voted(votes.mean(0), told.std(0, correction=0))
