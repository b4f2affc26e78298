"""`Witness`: the first colour that two graphs do not share, as data and in one sentence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from esan.plural import counted
from esan.wl.history import Meanings, NodeMultisets, copies_of, meanings
from esan.wl.palette import Ints
from esan.wl.refinement import ColourRefinement, numpy

#: Longer lists of what was seen are cut in a sentence.
_MOST_SEEN = 8


@dataclass(frozen=True)
class Witness:
    """Why two graphs are not isomorphic: something that one has and the other has not, or has less often.

    Numbers of colours count from 1, as in pictures; a class keeps its number when others are split off it.

    Attributes:
        text: the witness in one sentence.
        round: the round in which it appears; 0 for the initial colouring and for sizes.
        kind: "size", "colour" (of a node, or of a couple of nodes) or "subgraph".
        counts: how often each graph has it; the numbers that differ, for a size.
        colour: the number of the colour; None unless the kind is "colour".
        was: the colour that its cells had in the round before; None in round 0.
        saw: what they saw there, sorted; pairs of colours for tests of couples. Empty in round 0.
        graph: 0 or 1, the graph that has it, or has it more often.
        subgraph: an example: the subgraph, numbered within its graph.
        nodes: the node there, or the couple; empty for a subgraph or a size.
    """

    text: str
    round: int
    kind: str
    counts: tuple[int, int]
    colour: int | None = None
    was: int | None = None
    saw: tuple[int, ...] | tuple[tuple[int, int], ...] = ()
    graph: int = 0
    subgraph: int | None = None
    nodes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.text


def of_sizes(a: int, b: int, what: str, names: tuple[str, str]) -> Witness:
    """Two graphs that differ in how many nodes or subgraphs they have."""
    text = f"Round 0: {names[0]} has {a:,} {what}, {names[1]} has {b:,}."
    return Witness(text, 0, "size", (a, b), graph=0 if a > b else 1)


def of_colours(
    refinement: ColourRefinement, t: int, before: Ints | None, now: Ints, subgraph_colours: Ints, names: tuple[str, str]
) -> Witness:
    """The witness of two graphs that part in round t.

    Args:
        refinement: the two graphs under the test.
        t: the round.
        before: the numbers of the round before; None for round 0.
        now: the numbers of round t.
        subgraph_colours: the colour of each subgraph after round t.
        names: what the two graphs are called.
    """
    colours = int(now.max()) + 1
    count = np.stack([np.bincount(now[refinement.cell_graph == graph], minlength=colours) for graph in (0, 1)])
    differs = np.flatnonzero(count[0] != count[1])
    if not differs.size:
        return _of_subgraphs(refinement, t, now, subgraph_colours, names)
    alone = differs[(count[:, differs] == 0).any(0)]
    number = int(alone[0] if alone.size else differs[0])
    graph = int(count[1, number] > count[0, number])
    cell = int(np.flatnonzero((now == number) & (refinement.cell_graph == graph))[0])
    seen = None if before is None else meanings(refinement, before, now)
    thing = _described(refinement, seen, before, number)
    a, b = count[:, number].tolist()
    where = "" if refinement.selection.total == 2 else "the subgraphs of "
    if min(a, b) == 0:
        said = f"exists in {names[graph]} only"
    else:
        said = f"occurs {a:,} times in {where}{names[0]}, {b:,} times in {where}{names[1]}"
    return Witness(
        text=f"Round {t}: {thing} {said}.",
        round=t,
        kind="colour",
        counts=(a, b),
        colour=number + 1,
        was=None if seen is None else int(seen.was[number]) + 1,
        saw=() if seen is None else _one_up(seen.seen_by(number)),
        graph=graph,
        subgraph=int(refinement.cell_subgraph[cell] - refinement.selection.subgraph_start[graph]),
        nodes=refinement.nodes_of(cell),
    )


def _of_subgraphs(refinement: ColourRefinement, t: int, now: Ints, colours: Ints, names: tuple[str, str]) -> Witness:
    """Each colour occurs as often in both graphs, but not in the same subgraphs."""
    count = np.stack(
        [np.bincount(colours[refinement.subgraph_graph == g], minlength=colours.max() + 1) for g in (0, 1)]
    )
    differs = np.flatnonzero(count[0] != count[1])
    alone = differs[(count[:, differs] == 0).any(0)]
    colour = int(alone[0] if alone.size else differs[0])
    graph = int(count[1, colour] > count[0, colour])
    subgraph = int(np.flatnonzero((colours == colour) & (refinement.subgraph_graph == graph))[0])
    held = now[refinement.cell_subgraph == subgraph] + 1
    a, b = count[:, colour].tolist()
    said = (
        f"exists in {names[graph]} only"
        if min(a, b) == 0
        else f"occurs {a:,} times in {names[0]}, {b:,} times in {names[1]}"
    )
    return Witness(
        text=f"Round {t}: a subgraph with the colours {_listed(held.tolist())} {said}.",
        round=t,
        kind="subgraph",
        counts=(a, b),
        graph=graph,
        subgraph=subgraph - int(refinement.selection.subgraph_start[graph]),
    )


def _described(refinement: ColourRefinement, seen: Meanings | None, before: Ints | None, number: int) -> str:
    """The cells of a colour in words: only as much as tells them from all others of the round."""
    noun = "a couple of nodes" if refinement.couples else "a node"
    if seen is None or before is None:
        return f"{noun} with the initial colour {number + 1}"
    entries = (np.diff(seen.ptr) == seen.ptr[number + 1] - seen.ptr[number]).nonzero()[0]
    # Seen along edges with different labels is not the same.
    alike = [k for k in entries.tolist() if seen.seen_by(k) == seen.seen_by(number)]
    what = _listed(_one_up(seen.seen_by(number)))
    text = f"{noun} that saw {what}" if what else f"{noun} that saw nothing"
    if len(alike) > 1:
        was = int(seen.was[number])
        text = text.replace(noun, f"{noun} of colour {was + 1}", 1)
        alike = [k for k in alike if seen.was[k] == was]
    if len(alike) > 1 and seen.label is not None:
        mine = seen.label[seen.ptr[number] : seen.ptr[number + 1]]
        others = [seen.label[seen.ptr[k] : seen.ptr[k + 1]] for k in alike]
        if not all(np.array_equal(mine, other) for other in others):
            text += f" along edges labelled {_listed((mine + 1).tolist())}"
            alike = [k for k, other in zip(alike, others, strict=True) if np.array_equal(mine, other)]
    if len(alike) > 1 and seen.copies is not None:
        text += _shared(refinement, before, seen, number, alike)
    return text


def _shared(refinement: ColourRefinement, before: Ints, seen: Meanings, number: int, alike: list[int]) -> str:
    """What a node has in all subgraphs, and its neighbours there: as much as tells it from all that are alike."""
    copies = copies_of(refinement, before)
    assert copies is not None
    assert seen.copies is not None
    mine = int(seen.copies[number])
    said = ""
    if any(seen.copies[k] != mine for k in alike):
        said = f" and has the copies {_held(copies, mine)} in all subgraphs"
        alike = [k for k in alike if seen.copies[k] == mine]
    node = refinement.cell_node[seen.example]
    degree = numpy(refinement.graphs.degree)
    joined = degree[node[number]]
    if any(degree[node[k]] != joined for k in alike):
        said += f" and has {counted(int(joined), 'neighbour')} in the graph"
        alike = [k for k in alike if degree[node[k]] == joined]
    if len(alike) > 1:
        said += f" and gets colour {number + 1} from what its neighbours have in all subgraphs"
    return said


def _held(copies: NodeMultisets, multiset: int) -> str:
    return _listed([number + 1 for number, times in copies.of(multiset) for _ in range(times)])


def _one_up(seen: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(part + 1 for part in one) if isinstance(one, tuple) else one + 1 for one in seen)


def _listed(numbers: Sequence[Any]) -> str:
    """1, 2, 2 as it is where it is short; else 1 ×12, 2 ×3. Colours, or pairs of them."""

    def said(one: Any) -> str:
        return "({}, {})".format(*one) if isinstance(one, tuple) else str(one)

    if len(numbers) <= 4:
        return ", ".join(said(one) for one in numbers)
    parts = [said(one) if times == 1 else f"{said(one)} ×{times}" for one, times in Counter(sorted(numbers)).items()]
    return ", ".join(parts[:_MOST_SEEN]) + (", …" if len(parts) > _MOST_SEEN else "")
