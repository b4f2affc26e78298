"""Hooks of MkDocs: run tutorials and gallery, draw formulas, and show the files of the repository that pages link.

Links are written for the repository (`../benchmarks/figures/loop.md`). On the site such a file is a page of its own, so
that every link can be checked and nothing needs a network.
"""

import base64
import hashlib
import json
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

from blocks import BLOCK
from gallery import BLOCK as GALLERY_BLOCK
from maths import Maths

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "docs"
FOLDER = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)\)")
LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)((?:#[^)]*)?\))")
OUTSIDE = "repository"
GALLERY = "gallery.md"

#: What the blocks of each tutorial gave, by its path in docs/.
_outputs: dict[str, list[dict[str, Any]]] = {}
#: The files that each block of the gallery made, as base64 by name.
_gallery: list[dict[str, str]] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.markdown_extensions.append(Maths())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Run the tutorials, and add the files outside docs/ that pages link, and those that these link."""
    for file in list(files):
        if file.src_uri.startswith("tutorials/") and file.src_uri.endswith(".md"):
            _outputs[file.src_uri] = run_page(ROOT / "docs" / file.src_uri, "blocks.py")
            for name, picture in pictures(file.src_uri).items():
                files.append(File.generated(config, name, content=picture))
    _gallery[:] = run_page(ROOT / "docs" / GALLERY, "gallery.py")
    for made in _gallery:
        for name, data in made.items():
            files.append(File.generated(config, f"gallery/{name}", content=base64.b64decode(data)))
    queue = [Path("docs") / file.src_uri for file in files if file.src_uri.endswith(".md") and not file.generated_by]
    seen = set(queue)
    while queue:
        path = queue.pop()
        for _, target, _ in LINK.findall((ROOT / path).read_text(encoding="utf-8")):
            linked = Path(os.path.normpath(path.parent / target))
            if linked in seen or linked.parts[0] in ("docs", "..") or not (ROOT / linked).is_file():
                continue
            seen.add(linked)
            files.append(File.generated(config, site_path(linked), content=content(linked)))
            if linked.suffix == ".md":
                queue.append(linked)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Links as they are on the site; below each block of a tutorial what it gave."""
    uri = page.file.src_uri
    path = repository_path(uri)
    if path.suffix != ".md":
        return markdown

    def link(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(path.parent / match[2]))
        if target.parts[0] == ".." or not (ROOT / target).is_file():
            return match[0]  # MkDocs says that it leads nowhere
        return match[1] + posixpath.relpath(site_path(target), posixpath.dirname(uri) or ".") + match[3]

    def folder(match: re.Match[str]) -> str:
        """A folder of the repository has no page: its name alone."""
        return match[1] if (ROOT / path.parent / match[2]).is_dir() else match[0]

    markdown = LINK.sub(link, FOLDER.sub(folder, markdown))
    if uri == GALLERY:
        made, whole = iter(_gallery), markdown
        markdown = GALLERY_BLOCK.sub(lambda match: match[0] + shown_files(next(made), whole[: match.start()]), whole)
    if uri in _outputs:
        outputs = iter(_outputs[uri])
        names = iter(pictures(uri))
        markdown = BLOCK.sub(lambda match: match[0] + shown(next(outputs), names), markdown)
    return BLOCK.sub(lambda match: match[0].replace(match["more"], "", 1) if match["more"] else match[0], markdown)


def site_path(path: Path) -> str:
    """Where a file of the repository lies on the site."""
    if path.parts[0] == "docs":
        return path.relative_to("docs").as_posix()
    return f"{OUTSIDE}/{path.as_posix()}" + (".md" if path.suffix in (".py", ".toml", ".cff", ".csv") else "")


def repository_path(uri: str) -> Path:
    """And back."""
    if not uri.startswith(f"{OUTSIDE}/"):
        return Path("docs") / uri
    path = Path(uri).relative_to(OUTSIDE)
    return path if (ROOT / path).exists() else path.with_suffix("")


def content(path: Path) -> str | bytes:
    """Markdown and pictures as they are, other text as a block on a page."""
    if path.suffix in (".md", ".png", ".svg"):
        return (ROOT / path).read_bytes()
    text = (ROOT / path).read_text(encoding="utf-8")
    return f"# {path.as_posix()}\n\n````{path.suffix[1:]}\n{text}````\n"


def shown(output: dict[str, Any], names: Any) -> str:
    """The output of a block as Markdown."""
    text = f"\n\n```text\n{output['text'].rstrip()}\n```\n" if output["text"].strip() else ""
    for _ in output["figures"]:
        text += f"\n\n![What the code above draws]({posixpath.basename(next(names))})\n"
    return text


def pictures(uri: str) -> dict[str, bytes]:
    """The figures of a tutorial, by their path on the site."""
    stem = uri.removesuffix(".md")
    figures = [one for output in _outputs[uri] for one in output["figures"]]
    return {f"{stem}_{number}.png": base64.b64decode(one) for number, one in enumerate(figures, 1)}


def shown_files(made: dict[str, str], above: str) -> str:
    """Pictures below the block that made them, called as the heading above it; pages as links."""
    heading = re.findall(r"^#+ (.*)$", above, re.MULTILINE)[-1]
    lines = [
        f"![{heading}](gallery/{name})" if name.endswith(".png") else f"[Open {name}](gallery/{name})" for name in made
    ]
    return "".join(f"\n\n{line}\n" for line in lines)


def run_page(page: Path, tool: str) -> Any:
    """What the blocks of a page give, run by a tool of this folder; cached while page, tools and esan are the same."""
    digest = hashlib.sha256(page.read_bytes())
    tools = [Path(__file__).parent / name for name in ("blocks.py", tool)]
    for source in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("static/*"), *tools]):
        digest.update(source.read_bytes())
    kept = CACHE / f"{page.stem}-{digest.hexdigest()[:16]}.json"
    if not kept.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            work = Path(folder) / "work"
            work.mkdir()
            command = [sys.executable, str(Path(__file__).parent / tool), str(page), str(out)]
            environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "Agg"}
            done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise PluginError(f"Expected the blocks of {page.name} to run (got):\n{done.stderr}")
            out.rename(kept) if out.stat().st_dev == CACHE.stat().st_dev else kept.write_bytes(out.read_bytes())
    return json.loads(kept.read_text(encoding="utf-8"))
