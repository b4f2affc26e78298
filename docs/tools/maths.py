"""A Markdown extension: LaTeX formulas as MathML, which browsers draw by themselves.

Three forms are read: `.. math::` and `:math:` of docstrings, and ```` ```math ```` of pages.
"""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

DIRECTIVE = re.compile(r"^(?P<indent> *)\.\. math::(?P<rest>.*)$")
FENCE = re.compile(r"^(?P<indent> *)```math$")


class _Displayed(Preprocessor):
    """Formulas on lines of their own."""

    def run(self, lines: list[str]) -> list[str]:
        out: list[str] = []
        at = 0
        while at < len(lines):
            directive, fence = DIRECTIVE.match(lines[at]), FENCE.match(lines[at])
            if directive:
                formula, at = self._directive(lines, at, directive)
            elif fence:
                end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
                formula, at = " ".join(lines[at + 1 : end]), end + 1
            else:
                out.append(lines[at])
                at += 1
                continue
            stored = self.md.htmlStash.store(f'<div class="formula">{convert(formula.strip(), display="block")}</div>')
            out += ["", stored, ""]
        return out

    @staticmethod
    def _directive(lines: list[str], at: int, match: re.Match[str]) -> tuple[str, int]:
        """The formula after `.. math::`, on the same line or indented below, and the line where the text goes on."""
        indent = len(match["indent"])
        formula = [match["rest"]]
        at += 1
        while at < len(lines):
            line = lines[at]
            deeper = len(line) - len(line.lstrip()) > indent
            blank_before_formula = not line.strip() and not "".join(formula).strip()
            if not (line.strip() and deeper) and not blank_before_formula:
                break
            formula.append(line)
            at += 1
        return " ".join(formula), at


class _Inline(InlineProcessor):
    """Formulas inside a sentence."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: N802, ARG002
        return self.md.htmlStash.store(convert(m[1])), m.start(0), m.end(0)


class Maths(Extension):
    """Both."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # Before fenced code (25), and after line breaks are made alike (30).
        md.preprocessors.register(_Displayed(md), "esan-maths", 28)
        # Before code in backticks (190).
        md.inlinePatterns.register(_Inline(r":math:`([^`]+)`", md), "esan-maths", 195)
