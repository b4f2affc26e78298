"""Products of rows by tiles of our own, and the memory of tables, against what they stand for."""

import copy
import gc
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import esan
import strategies
from esan.ops.numba import runtime as cpu
from esan.ops.numba import workspace as cpu_tables
from esan.testing.compare import check_close

pytestmark = pytest.mark.skipif(not cpu.available(), reason="needs numba (the extra fast)")

KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64], ids=["single", "double"])
#: Rows that fill tiles, or leave one to three over, or all in one tile; lines of some vectors, or some numbers more.
SIZES = pytest.mark.parametrize(
    "sizes", [(64, 64, 64), (131, 36, 20), (3, 4, 4), (66, 16, 67), (1, 8, 33), (130, 4, 6), (0, 4, 4)]
)


def _tables(kind: type, *shapes: tuple[int, int]) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape).astype(kind) for shape in shapes]


@KINDS
@SIZES
@pytest.mark.parametrize("more", [0, 1, 2, 3])
def test_rows_times_a_matrix(kind: type, sizes: tuple[int, int, int], more: int) -> None:
    from esan.ops.numba.tile_loops import rows_times

    rows, depth, columns = sizes
    depth += more
    # A line more than is written: nothing behind the table is touched.
    a, b, c = _tables(kind, (rows, depth), (depth, columns), (rows + 1, columns))
    last = c[-1].copy()
    rows_times(a.ctypes.data, b.ctypes.data, c.ctypes.data, rows, depth, columns, a.itemsize, kind(0))
    np.testing.assert_allclose(c[:-1], a @ b, rtol=0, atol=200 * float(np.finfo(kind).eps))
    assert np.array_equal(c[-1], last)


@KINDS
@SIZES
def test_sum_of_products_of_rows(kind: type, sizes: tuple[int, int, int]) -> None:
    from esan.ops.numba.tile_loops import add_sum_of_products

    rows, lines, columns = sizes
    a, b, c = _tables(kind, (rows, lines), (rows, columns), (lines + 1, columns))
    expected, last = c[:-1] + a.T @ b, c[-1].copy()
    add_sum_of_products(a.ctypes.data, b.ctypes.data, c.ctypes.data, rows, lines, columns, a.itemsize, kind(0))
    np.testing.assert_allclose(c[:-1], expected, rtol=0, atol=500 * float(np.finfo(kind).eps))
    assert np.array_equal(c[-1], last)


def test_what_is_not_finite_stays_so() -> None:
    from esan.ops.numba.tile_loops import rows_times

    a, b, c = _tables(np.float32, (4, 4), (4, 4), (4, 4))
    a[2, 1] = np.nan
    rows_times(a.ctypes.data, b.ctypes.data, c.ctypes.data, 4, 4, 4, 4, np.float32(0))
    assert np.isnan(c[2]).all()
    assert np.isfinite(c[[0, 1, 3]]).all()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("by_tiles", [True, False], ids=["tiles", "blas"])
def test_a_network_with_either(kind: torch.dtype, by_tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Predictions and every gradient are those of plain torch, whichever multiplies.

    Marks make lines of 18 numbers of the first layer's, which vectors of four do not fill.
    """
    monkeypatch.setattr(cpu, "_on_arm", lambda: by_tiles)
    if not by_tiles and not cpu.blas(kind):
        pytest.skip("there is no BLAS here that compiled loops can call")
    policy = esan.EgoNets(2, marked=True)
    torch.manual_seed(0)
    bonds = esan.Categories(strategies.BONDS)
    ours = esan.dss_gnn(esan.Categories(strategies.ATOMS), 16, 3, 1, conv="gine", edge_channels=bonds, marked=True).to(
        kind
    )
    theirs = copy.deepcopy(ours)
    edges = [(v, v + 1) for v in range(11)] + [(0, 11), (2, 7)]
    bag = esan.Bag.of([strategies.from_edges(12, edges, i) for i in range(6)], policy, 3)
    prediction = ours(bag)
    prediction.sum().backward()
    with monkeypatch.context() as patch:
        patch.setattr(cpu, "available", lambda: False)
        expected = theirs(esan.Bag.of(bag.graphs, policy, 3))
        expected.sum().backward()
    tolerance = 1e-4 if kind == torch.float32 else 1e-10
    check_close(prediction, expected, "predictions", tolerance=tolerance)
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        if other.grad is not None:
            assert mine.grad is not None
            check_close(mine.grad, other.grad, name, tolerance=tolerance)


@pytest.mark.parametrize(
    ("shape", "fits"), [((64, 64), True), ((4, 66), True), ((66, 64), False), ((64, 3), False), ((35, 35), False)]
)
def test_tiles_are_for_lines_that_vectors_fill(
    shape: tuple[int, int], fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "_on_arm", lambda: True)
    assert cpu.tiles(torch.zeros(shape)) == fits
    monkeypatch.setattr(cpu, "_on_arm", lambda: False)
    assert not cpu.tiles(torch.zeros(shape))


class TestMemory:
    @pytest.fixture(autouse=True)
    def _shelf(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """A shelf of this test's own; what is lent goes back to the one that it is from."""
        shelf = cpu_tables._Shelf()
        monkeypatch.setattr(cpu_tables, "_shelf", shelf)
        monkeypatch.setattr(cpu_tables._Lent.__del__, "__defaults__", (shelf,))
        yield
        gc.collect()

    def _table(self, lines: int = 2000, kind: torch.dtype = torch.float32) -> torch.Tensor:
        return cpu_tables.empty_table(torch.zeros(1, dtype=kind), lines, 64)

    def test_is_used_again_once_nobody_reads_it(self) -> None:
        first = self._table()
        assert first.shape == (2000, 64)
        assert first.dtype == torch.float32
        where, view = first.data_ptr(), first[5:7]
        first.fill_(3)
        del first
        # A view still reads it.
        second = self._table()
        assert second.data_ptr() != where
        assert bool((view == 3).all())
        del view
        assert self._table(1900).data_ptr() == where

    def test_serves_both_precisions(self) -> None:
        where = self._table().data_ptr()
        again = self._table(1000, torch.float64)
        assert again.data_ptr() == where
        assert again.dtype == torch.float64

    def test_is_not_kept_where_it_is_small(self) -> None:
        self._table(10)
        assert not cpu_tables._shelf.waiting

    def test_is_not_used_for_much_less(self) -> None:
        where = self._table(20_000).data_ptr()
        assert self._table(2000).data_ptr() != where

    def test_that_waits_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cpu_tables, "_WAITING", 2_000_000)
        held = [self._table(1900 + i) for i in range(6)]
        first, last = held[0].data_ptr(), held[-1].data_ptr()
        while held:
            del held[0]
        assert 0 < cpu_tables._shelf.waiting <= 2_000_000
        # What has come back last is there, and what came first is not.
        places = [memory.ctypes.data for _, _, memory in cpu_tables._shelf._pieces]
        assert last in places
        assert first not in places

    def test_that_comes_back_in_the_middle_of_a_call(self) -> None:
        """As when the collector comes then: nothing is lost, and nobody gets less than was asked for."""
        shelf = cpu_tables._shelf
        shelf.give_back(np.empty(100_000, np.uint8))
        with shelf._lock:
            shelf.give_back(np.empty(70_000, np.uint8))
            assert shelf.take(90_000).nbytes >= 90_000
            assert shelf.waiting == 100_000
        assert shelf.take(66_000).nbytes == 70_000
        assert shelf.take(90_000).nbytes == 100_000
        for i in range(3_000):
            # Tables in cycles, which only the collector lets go.
            cycle: list[object] = [self._table(300 + i % 7 * 150)]
            cycle.append(cycle)
            assert shelf.take(76_800 + i % 5 * 10_000).nbytes >= 76_800 + i % 5 * 10_000

    def test_of_a_pass_lives_until_its_last_gradient(self) -> None:
        """Backward twice over one pass gives the same, with other passes in between."""
        graphs = [strategies.from_edges(40, [(v, v + 1) for v in range(39)], i) for i in range(8)]
        bag = esan.Bag.of(graphs, esan.NodeDeletion(), 2)
        torch.manual_seed(0)
        network = esan.ds_gnn(esan.Categories(strategies.ATOMS), 96, 2, 1, conv="gin")
        weights = list(network.parameters())
        loss = network(bag).sum()
        first = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
        network(bag).sum().backward()
        second = torch.autograd.grad(loss, weights, allow_unused=True)
        assert cpu_tables._shelf.waiting, "the tables of this network must be large enough to be kept"
        for one, other in zip(first, second, strict=True):
            assert (one is None) == (other is None)
            assert one is None or other is None or torch.equal(one, other)
