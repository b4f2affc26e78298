"""Interpreted: batches gathered from the dataset are, field by field and to the bit, those of the plain way."""

from collections.abc import Callable

import pytest
import torch
from interpreting import ONLY_INTERPRETED
from torch import Tensor

import esan
import strategies
from esan.bags import padding
from esan.bags.lines import Lines
from esan.bags.packing import Batches
from esan.bags.padding import Padder
from esan.bags.shapes import Shape
from esan.ops.triton import layout as gpu_layout
from esan.ops.triton.layout import Entry, Fill, Program, Stretch, lay_out

pytestmark = ONLY_INTERPRETED
#: With arcs and rows in all slots, with marks, with rows that differ from the first layer on.
POLICIES = pytest.mark.parametrize("name", ["ED", "ND", "EGO+(2)"])
LITERAL = pytest.mark.parametrize("literal", [True, None], ids=["literal", "compact"])
#: Every policy and both kinds of bag; each two of them meet in one of two tests.
SOME = pytest.mark.parametrize(("name", "literal"), [("ED", None), ("ND", True), ("EGO+(2)", None)])
OTHERS = pytest.mark.parametrize(("name", "literal"), [("ED", True), ("ND", None), ("EGO+(2)", True)])
#: Long enough that what a subgraph changes does not reach all of it in three layers.
GRAPHS = [*strategies.odd_graphs(), strategies.from_edges(9, [(i, i + 1) for i in range(8)], 11)]
#: Two steps of two networks: graphs twice, a batch that lacks some, and one that has none.
IDS = torch.tensor([[[7, 1, 4], [0, 5, 2]], [[6, -1, 6], [-1, -1, -1]]])


def room(padder: Padder, ids: Tensor = IDS) -> Shape:
    return padder.counts.shape(ids.numpy().reshape(-1, ids.size(2))).grown(1.1)


def same(ours: Batches, theirs: Batches) -> None:
    assert len(ours) == len(theirs)
    assert ours.fields.keys() == theirs.fields.keys()
    for k in range(len(ours)):
        mine, other = (b.views(b.ints[k], b.floats[k]) for b in (ours, theirs))
        for name, expected in other.items():
            assert mine[name].is_floating_point() == expected.is_floating_point(), name
            assert mine[name].to(expected.dtype).equal(expected), name


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def compare(padder: Padder, ids: Tensor, shape: Shape, networks: int = 1, only: set[str] | None = None) -> None:
        gathered = padder.lay_out(ids, shape, networks, only)
        with monkeypatch.context() as context:
            context.delenv("TRITON_INTERPRET")
            same(gathered, padder.lay_out(ids, shape, networks, only))

    return compare


@SOME
def test_another_room(
    check: Callable[..., None], name: str, literal: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every field in less room and in more, for which nothing of the dataset is gathered anew."""
    padder = Padder(esan.Bag.of(GRAPHS, strategies.POLICIES[name], 3, literal=literal), 3)
    large, ids = room(padder).grown(2.0), IDS[:1, :1]
    check(padder, ids, large)
    monkeypatch.setattr(padder, "_gathered", lambda known, only: {})
    for shape in (room(padder, ids), large.smaller(0.7), large.grown(1.3)):
        assert shape != large
        check(padder, ids, shape)


@POLICIES
@LITERAL
def test_every_field(check: Callable[..., None], name: str, literal: bool | None) -> None:
    padder = Padder(esan.Bag.of(GRAPHS, strategies.POLICIES[name], 3, literal=literal), 3)
    check(padder, IDS, room(padder), 2)


@OTHERS
def test_some_graphs_at_a_time(
    check: Callable[..., None], monkeypatch: pytest.MonkeyPatch, name: str, literal: bool | None
) -> None:
    bag = esan.Bag.of(GRAPHS, strategies.POLICIES[name], 3, literal=literal)
    monkeypatch.setattr(padding, "_MOST_LINES", max(1, bag.rows.arc.numel() // 3))
    padder = Padder(bag, 3)
    check(padder, IDS, room(padder), 2)


def test_the_same_batches_for_all_networks(check: Callable[..., None]) -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 1), 1)
    check(padder, IDS[:, :1], room(padder), 3)


def test_some_fields(check: Callable[..., None]) -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3), 3)
    check(padder, IDS, room(padder), 2, {"x", "stage2.out.order", "graph_weight"})


def test_more_lines_than_a_program_takes(check: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_layout, "_BLOCK", 16)
    padder = Padder(esan.Bag.of(GRAPHS, esan.EgoNets(hops=1, marked=True), 2), 2)
    check(padder, IDS[1:], room(padder), 2)


def test_a_sample_without_the_last_rows(check: Callable[..., None]) -> None:
    """In the shape of another, which has slots that are empty here."""
    whole = esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3)
    check(Padder(whole[[0, 1, 2]], 3), torch.tensor([[[2, 0, 1]], [[1, 2, -1]]]), room(Padder(whole, 3)))


def test_graphs_without_an_edge(check: Callable[..., None]) -> None:
    padder = Padder(esan.Bag.of([strategies.from_edges(n, [], n) for n in (1, 3, 2)], esan.NodeDeletion(), 3), 3)
    ids = torch.tensor([[[2, 0]], [[1, -1]]])
    check(padder, ids, room(padder, ids))


def test_features_of_several_numbers(check: Callable[..., None]) -> None:
    """Of 64 bits where they are whole, fractions otherwise."""
    graphs = []
    for i, graph in enumerate(GRAPHS):
        nodes, arcs = int(graph.num_nodes or 0), graph.num_edges
        graph = graph.clone()
        graph.x = torch.arange(3 * nodes).reshape(nodes, 3) - 2**40 * i
        graph.edge_attr = torch.randn(arcs, 2, generator=torch.Generator().manual_seed(i)).double()
        graph.y = torch.tensor([[i, -i, 2**35]])
        graphs.append(graph)
    padder = Padder(esan.Bag.of(graphs, esan.EdgeDeletion(), 2), 2)
    check(padder, IDS, room(padder), 2, {"x", "edge_attr", "y"})


def test_a_wrong_reference_would_be_seen(check: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    padder = Padder(esan.Bag.of(GRAPHS, esan.NodeDeletion(), 3), 3)
    begins = Lines.begins
    monkeypatch.setattr(Lines, "begins", lambda *arguments: begins(*arguments) + 1)
    with pytest.raises(AssertionError, match=r"first"):
        check(padder, IDS, room(padder), 2)


def test_the_kernel_writes_only_what_is_asked_for() -> None:
    """Two networks, one graph of three lines and two fillers: numbers, and fractions as their bits."""
    values = torch.tensor([5, 6, 7], dtype=torch.int32)
    stretch = Stretch(column=0, columns=2, width=1, size=5)
    entry = Entry(
        pointer=values.data_ptr(), apart=1, size=4, bits=0, to=-1, block=0, plus=10, times=2, fill=0, step=100, begin=1,
        network=6, stride=1, fraction=0,
    )  # fmt: skip
    fill = Fill(1, 1, 1, 1)
    program = Program.of({stretch: [entry]}, [fill], [0, 0], [0, 1], torch.tensor([[0, 3]]))
    ints, floats = torch.full((1, 13), -1), torch.full((1, 1), -1.0)
    begin = torch.tensor([[0, 3]], dtype=torch.int32)
    lay_out(program, torch.tensor([[0]]), begin, ints, floats, 1, 2)
    first = [30, 32, 34, 8, 10]  # the filler is 2 · (1 + 3 + k)
    assert ints.tolist() == [[-1, *first, -1, *(n + 100 for n in first), -1]]
    assert floats.tolist() == [[-1.0]]
