"""Writes way_of_a_batch.svg: the way of one batch from PyG data to the loss."""

from pathlib import Path
from xml.sax.saxutils import escape

INK, GREY, ACCENT = "#24303f", "#6b7785", "#e4572e"
WIDTH, HEIGHT = 960, 560


def text(x: float, y: float, words: str, size: int = 13, colour: str = INK, weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="middle">{escape(words)}</text>'
    )


def box(x: float, y: float, title: str, words: str, fill: str = "#eef2f7", width: float = 160) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="62" rx="6" fill="{fill}" stroke="{INK}"/>'
        + text(x + width / 2, y + 26, title, 12, weight="bold")
        + text(x + width / 2, y + 46, words, 11, GREY)
    )


def arrow(*points: tuple[float, float]) -> str:
    line = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{line}" fill="none" stroke="{INK}" stroke-width="1.5" marker-end="url(#tip)"/>'


def band(y: float, height: float, words: str) -> str:
    return (
        f'<rect x="10" y="{y}" width="{WIDTH - 20}" height="{height}" rx="8" fill="#fafbfc" stroke="#d6dce4"/>'
        f'<text x="24" y="{y + height - 10}" font-size="11" fill="{GREY}">{escape(words)}</text>'
    )


def picture() -> str:
    warm = "#fdeeea"
    parts = [
        band(10, 120, "once per data set"),
        box(30, 48, "PyG Data", "or networkx, or files"),
        box(265, 48, "Graphs", "checked collection"),
        box(500, 48, "Selection", "what subgraphs change"),
        box(735, 48, "Bag", "rows, sorted by level", warm),
        arrow((190, 79), (261, 79)),
        arrow((425, 79), (496, 79)),
        arrow((660, 79), (731, 79)),
        text(225, 70, "read", 11, GREY),
        text(460, 70, "Policy", 11, GREY),
        text(695, 70, "levels", 11, GREY),
        band(150, 120, "once per batch"),
        box(735, 188, "Loader", "gathers, pads, prefetches"),
        box(500, 188, "batch: a Bag", "rows with multiplicities", warm),
        box(265, 188, "LayerView t", "rows and edges of layer t"),
        arrow((815, 110), (815, 184)),
        arrow((735, 219), (664, 219)),
        arrow((500, 219), (429, 219)),
        band(290, 120, "forward pass"),
        box(30, 328, "NodeFeatures", "x and marks to rows"),
        box(265, 328, "Layer × L", "σ(Σ norm(term(h)))", warm),
        box(500, 328, "Readout, SetEncoder", "subgraphs, then graphs"),
        box(735, 328, "head", "predictions"),
        arrow((345, 250), (345, 324)),
        arrow((265, 219), (110, 219), (110, 324)),
        arrow((190, 359), (261, 359)),
        arrow((425, 359), (496, 359)),
        arrow((660, 359), (731, 359)),
        band(430, 120, "operators: one function decides which implementation runs"),
        box(265, 468, "reference (torch)", "defines the meaning"),
        box(30, 468, "numba", "CPU"),
        box(500, 468, "Triton", "GPU"),
        box(735, 468, "loss, backward", "yours; esan.step records it"),
        arrow((345, 390), (345, 464)),
        arrow((300, 390), (110, 464)),
        arrow((390, 390), (580, 464)),
        arrow((815, 390), (815, 464)),
    ]
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker></defs>'
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="system-ui, sans-serif" role="img" aria-label="The way of one batch from PyG data to the loss">'
    )
    return "\n".join([head, tip, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>', *parts, "</svg>", ""])


if __name__ == "__main__":
    (Path(__file__).parent / "way_of_a_batch.svg").write_text(picture(), encoding="utf-8")
