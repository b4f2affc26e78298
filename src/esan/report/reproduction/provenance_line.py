"""The line below a table that says which commit and which data its runs were made with."""

from collections import Counter
from collections.abc import Sequence

from esan.plural import counted
from esan.report.formatting import escape_markdown
from esan.train.runs.records import Record

_NOT_RECORDED = "not recorded"


def provenance_line(records: Sequence[Record]) -> str:
    """The commits of esan and the SHA-256 of each dataset, with the number of runs of each; empty for no records."""
    if not records:
        return ""
    commits = Counter(record.commit for record in records)
    data = Counter((record.recipe.data, record.data_sha256) for record in records)
    hashes: dict[str, list[str]] = {}
    for (name, digest), runs in sorted(data.items(), key=lambda pair: (pair[0][0], pair[0][1] or "")):
        hashes.setdefault(_short(digest), []).append(f"{escape_markdown(name)} ({counted(runs, 'run')})")
    made = ", ".join(f"{_short(one)} ({counted(runs, 'run')})" for one, runs in commits.most_common())
    read = "; ".join(f"{digest}: {', '.join(names)}" for digest, names in hashes.items())
    return f"Commit of esan: {made}. SHA-256 of the data: {read}.\n"


def _short(text: str | None) -> str:
    """Twelve digits of a digest; words as they are."""
    if text is None:
        return _NOT_RECORDED
    digest, plus, _ = text.partition("+")
    if len(digest) < 40 or " " in digest:
        return escape_markdown(text)
    return f"`{digest[:12]}`{' with changes' if plus else ''}"
