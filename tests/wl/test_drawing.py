"""Pictures of refinements: what they show, and what they refuse."""

from pathlib import Path

import numpy as np
import pytest

from esan import wl
from esan.graphs import cycle, random_regular

pytest.importorskip("matplotlib")


def _texts(figure: object) -> list[str]:
    axes = figure.axes  # type: ignore[attr-defined]
    return [text.get_text() for axis in axes for text in axis.texts] + [axis.get_xlabel() for axis in axes]


def test_a_line_a_round_until_they_part(tmp_path: Path) -> None:
    figure = wl.draw_refinement("cycle(6)", "2xcycle(3)", "ds", "ED", path=tmp_path / "c6.png")
    assert (tmp_path / "c6.png").stat().st_size > 20_000
    # Three rounds of two whole graphs, one subgraph of each, and the legend between.
    assert len(figure.axes) == 3 * 5
    assert figure.get_suptitle() == "G and H: 1-WL cannot part them; DS-WL with ED parts them in round 2"
    # What one graph lacks comes first, then what it has less often.
    legend = "3 = was 1, saw 1 2\n4 = was 1, saw 2 2\n1 = was 1, saw 1 1\n2 = was 2, saw 1"
    assert legend in _texts(figure)
    assert "2 of colour 3\n2 of colour 1\n2 of colour 2" in _texts(figure)


def test_whole_graphs_under_1_wl() -> None:
    figure = wl.draw_refinement("path(4)", "star(3)", "1")
    assert len(figure.axes) == 2 * 3
    assert figure.get_suptitle() == "G and H: 1-WL parts them in round 1"


def test_marks_and_kept_edges() -> None:
    figure = wl.draw_refinement("path(4)", "star(3)", "dss", "EGO+(1)", most=2)
    rings = [np.max(points.get_linewidth()) for axis in figure.axes for points in axis.collections]
    assert max(rings) > 2


@pytest.mark.exhaustive
def test_nodes_stay_apart_and_numbers_legible_at_41_nodes() -> None:
    figure = wl.draw_refinement("csl(41,9)", "csl(41,12)", "ds", "ND", most=1)
    figure.canvas.draw()
    axis = figure.axes[1]
    (points,) = axis.collections
    centres = axis.transData.transform(points.get_offsets()) * 72 / figure.dpi
    # A size is the square of the diameter, in points.
    distance = min(np.hypot(*(centres[u] - centres[v])) for u in range(41) for v in range(u))
    assert distance > np.sqrt(points.get_sizes()[0])  # type: ignore[attr-defined]
    assert min(float(text.get_fontsize()) for text in axis.texts) >= 3.2


def test_roots_and_deleted_edges_are_seen() -> None:
    figure = wl.draw_refinement("csl(12,3)", "csl(12,5)", "ds", "EGO(1)", most=1)
    rings = np.atleast_1d(figure.axes[1].collections[0].get_linewidth())
    assert (rings > 2).tolist() == [True] + [False] * 11
    styles = {line.get_linestyle() for line in figure.axes[1].lines}
    assert styles == {"-", "--"}  # four edges are kept; the others are faint


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a test that colours nodes"):
        wl.draw_refinement("path(4)", "star(3)", "2-fwl")
    with pytest.raises(ValueError, match="at most 120 nodes"):
        wl.draw_refinement(cycle(121), random_regular(2, 121, 0), "1")
    with pytest.raises(ValueError, match=r"most, .* of at least 1 \(got 0\)"):
        wl.draw_refinement("path(4)", "star(3)", "1", most=0)
    advice = wl.advise([cycle(4)], policies=[])
    for where, message in ((tmp_path, "a folder"), (tmp_path / "picture", "no ending")):
        with pytest.raises(ValueError, match=message):
            wl.draw_refinement("path(4)", "star(3)", "1", path=where)
        with pytest.raises(ValueError, match=message):
            wl.plot_advice(advice, where)
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}*.png"))
    assert not list(tmp_path.iterdir())
