"""SVG shapes as text, with colours for light and dark screens."""

from collections.abc import Iterable
from html import escape

#: Names of tones → (on a light page, on a dark page). The pairs can be distinguished with any colour vision: lines also
#: differ in dashes, marks in being filled or hollow.
TONES: dict[str, tuple[str, str]] = {
    "page": ("#ffffff", "#14171a"),
    "ink": ("#1c2126", "#e6e8ea"),
    "soft": ("#5d6771", "#a3acb5"),
    "line": ("#dfe3e7", "#343b42"),
    "panel": ("#f7f8f9", "#1c2125"),
    "ours": ("#0b62b0", "#6cb2f5"),
    "test": ("#b4530a", "#f0a35e"),
    "paper": ("#6b7580", "#9aa4ae"),
    "good": ("#1f7a43", "#6fcf97"),
    "bad": ("#b3261e", "#ff9d94"),
}

_FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


def tones() -> str:
    """CSS variables for both kinds of page, and the classes that drawings use."""
    light = " ".join(f"--{name}: {pair[0]};" for name, pair in TONES.items())
    dark = " ".join(f"--{name}: {pair[1]};" for name, pair in TONES.items())
    shapes = [f".s-{name} {{ stroke: var(--{name}); fill: none; }}" for name in TONES]
    fills = [f".f-{name} {{ fill: var(--{name}); stroke: none; }}" for name in TONES]
    return "\n".join(
        [
            f":root {{ color-scheme: light dark; {light} }}",
            f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}",
            f"svg text {{ font-family: {_FONT}; }}",
            *shapes,
            *fills,
            ".hollow { fill: var(--page); }",
        ]
    )


def drawing(width: float, height: float, shapes: Iterable[str], title: str) -> str:
    """An SVG image, whose colours are those of the page (`tones`)."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(title)}</title>'
    return f"{head}{''.join(shapes)}</svg>"


def line(x1: float, y1: float, x2: float, y2: float, tone: str, width: float = 1, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="s-{tone}" {ends} stroke-width="{width:g}"{dashes}/>'


def polyline(points: Iterable[tuple[float, float]], tone: str, width: float = 1.5, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    look = f'class="s-{tone}" stroke-width="{width:g}" stroke-linejoin="round"{dashes}'
    return f'<polyline {look} points="{_points(points)}"/>'


def area(points: Iterable[tuple[float, float]], tone: str, opacity: float = 0.18) -> str:
    return f'<polygon class="f-{tone}" points="{_points(points)}" fill-opacity="{opacity:g}"/>'


def rect(x: float, y: float, width: float, height: float, tone: str, opacity: float = 1.0) -> str:
    ends = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="f-{tone}" {ends} fill-opacity="{opacity:.3g}"/>'


def dot(x: float, y: float, tone: str, radius: float = 4, hollow: bool = False) -> str:
    # Filled with the colour of the page, so that lines end at its border.
    kind = f'class="s-{tone} hollow" stroke-width="1.6"' if hollow else f'class="f-{tone}"'
    return f'<circle {kind} cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def text(
    x: float, y: float, words: str, tone: str = "ink", size: float = 11, anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text class="f-{tone}" x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"{weight}>'
        f"{escape(words)}</text>"
    )


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
