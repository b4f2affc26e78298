"""`page`: the explorer as one HTML file that needs nothing else, under a strict Content-Security-Policy."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from esan.atomic_write import write_file
from esan.explore.choice import TEST_NAMES, Choice
from esan.explore.stories import STORIES, PageView
from esan.explore.view import view
from esan.graphs.networkx_graphs import SMALL
from esan.single_file_html import asset, digest, script_data
from esan.wl import TESTS

#: Graphs and policies that the fields of a page suggest.
_NAMES = (
    "cycle(6)", "2xcycle(3)", "path(5)", "star(4)", "complete(5)", "csl(12,3)", "csl(12,5)", "rook", "shrikhande",
    "decalin", "bicyclopentyl", "grid(4,5)", "torus(4,4)", "hypercube(3)", "circular_ladder(6)", "moebius_ladder(6)",
    "wheel(7)", "balanced_tree(2,3)", "complete_bipartite(3,3)", "kneser(5,2)", "paley(13)", *SMALL,
    "smiles:c1ccccc1O", "edges:0-1,1-2,2-0",
)  # fmt: skip
_POLICIES = ("ED", "ND", "EGO(1)", "EGO(2)", "EGO+(1)", "EGO+(2)", "NM", "SE", "ED^", "ND^", "EGO(2)^")


def page(
    choice: Choice | None = None,
    *,
    token: str | None = None,
    stories: bool = True,
    first_round: int | None = None,
    names: tuple[str, ...] = (),
) -> str:
    """The page as text.

    Without a token it is whole in itself: the results of the choice and of the stories are embedded, rounds can be
    stepped through, and graphs cannot be edited. With one it asks the server that gave it.

    Args:
        choice: what is shown first; None for the first story.
        token: what the page proves to its server that it is its own.
        stories: whether a page without a server holds the results of the stories.
        first_round: the round that is shown first; None for the one in which the graphs part.
        names: further graphs that its fields suggest, e.g. files.
    """
    views = []
    if token is None:
        looks = [look for story in STORIES for look in (story.look, *story.others)] if stories else []
        views += [
            {"choice": _look(look), "view": view(Choice.of(look.graphs, look.test, look.policy))} for look in looks
        ]
        # Behind the stories: one of them may have the same graphs under other names.
        if choice is not None:
            views.append({"choice": _sent(choice), "view": view(choice)})
    story = STORIES[0]
    first = {"choice": _look(story.look), "story": story.key, "panel": story.look.panel, "round": story.look.round}
    if choice is not None:
        first = {"choice": _sent(choice), "story": None, "panel": "subgraphs", "round": first_round}
    setup = {
        "token": token,
        "tests": [
            {"name": name, "title": title, "subgraphs": TESTS[name].subgraphs} for name, title in TEST_NAMES.items()
        ],
        "names": [*names, *_NAMES],
        "policies": _POLICIES,
        "stories": [asdict(story) for story in STORIES] if stories or token else [],
        "views": views,
        "first": first,
    }
    return _filled(script_data(setup), content_security_policy(token is not None))


def save_page(path: str | Path, choice: Choice | None = None, *, first_round: int | None = None) -> Path:
    """Write the page with the results of a choice and of the stories to one file.

    Args:
        path: the file, which ends in .html.
        choice: what is shown first; None for the first story.
        first_round: the round that is shown first.
    """
    path = html_file(path)
    text = page(choice, first_round=first_round)
    write_file(path, lambda file: file.write(text.encode("utf-8")))
    return path


def html_file(path: str | Path) -> Path:
    """The path, if it names a file that ends in .html."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise ValueError(f"Expected a file that ends in .html (got {str(path)!r}). Name it e.g. page.html.")
    return path


def content_security_policy(served: bool) -> str:
    """The Content-Security-Policy: this page's own scripts and styles by their digests, and nothing else."""
    scripts = " ".join(digest(_asset(name)) for name in ("d3.min.js", "app.js"))
    rules = {
        "default-src": "'none'",
        "script-src": scripts,
        "style-src": digest(_asset("page.css")),
        "img-src": "data: blob:",
        "connect-src": "'self'" if served else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _filled(setup: str, policy: str) -> str:
    parts = {
        "%CSP%": policy,
        "%CSS%": _asset("page.css"),
        "%SETUP%": setup,
        "%D3%": _asset("d3.min.js"),
        "%APP%": _asset("app.js"),
    }
    # In one pass, so that inserted text is never searched for placeholders.
    text, made = _asset("page.html"), []
    for place, value in parts.items():
        before, _, text = text.partition(place)
        made += [before, value]
    return "".join([*made, text])


def _sent(choice: Choice) -> dict[str, Any]:
    return {"graphs": list(choice.specs), "test": choice.kind.name, "policy": choice.policy_name}


def _look(look: PageView) -> dict[str, Any]:
    return {"graphs": list(look.graphs), "test": look.test, "policy": look.policy}


def _asset(name: str) -> str:
    return asset("esan.explore", name)
