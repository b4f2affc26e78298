"""Imports go one way, `import esan` needs the core alone, no two classes share a name, and what never appears."""

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import pytest

import esan

ROOT = Path(esan.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


BELOW_ALL = {
    "atomic_write",
    "checks",
    "tensor_dataclass",
    "ops",
    "version",
    "plural",
    "memory_limits",
    "single_file_html",
}
#: What each part of the package may import, besides itself and what lies below all.
MAY_IMPORT: dict[str, set[str]] = {
    "atomic_write": set(),
    "checks": set(),
    "tensor_dataclass": set(),
    "ops": set(),
    "version": set(),
    "plural": set(),
    "memory_limits": set(),
    "single_file_html": set(),
    "graphs": set(),
    "policies": {"graphs"},
    "bags": {"graphs", "policies"},
    "nn": {"graphs", "policies", "bags"},
    "wl": {"graphs", "policies", "bags"},
    "explore": {"graphs", "policies", "bags", "wl"},
    "steps": {"graphs", "policies", "bags", "nn"},
    "data": {"graphs"},
    "testing": {"graphs", "policies", "bags", "nn"},
    "train": {"graphs", "policies", "bags", "nn", "wl", "data", "steps"},
    "report": {"graphs", "policies", "bags", "nn", "wl", "data", "train"},
    "cli": {"graphs", "policies", "bags", "nn", "wl", "explore", "data", "train", "report"},
    "__main__": {"cli"},
}


def _part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def _imports(tree: ast.AST) -> Iterator[str]:
    """The parts of esan that a file imports, wherever in it, names for type checkers left out."""
    hidden = {id(n) for node in ast.walk(tree) if _is_type_checking(node) for n in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            names = [f"esan.{alias.name}" for alias in node.names] if node.module == "esan" else [node.module or ""]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("esan."))


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_imports_go_one_way() -> None:
    for path in FILES:
        part = _part(path)
        if part != "__init__":
            assert part in MAY_IMPORT, f"{part} has no place in the order of imports: give it one above"
            allowed = MAY_IMPORT[part] | BELOW_ALL | {part}
            wrong = sorted(set(_imports(_tree(path))) - allowed)
            assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}, which lie above {part}"


def test_a_wrong_import_would_be_seen() -> None:
    assert list(_imports(ast.parse("def f():\n    from esan.nn.norm import BatchNorm"))) == ["nn"]
    assert list(_imports(ast.parse("from esan import train, bags\nimport esan.cli.main"))) == ["train", "bags", "cli"]
    assert list(_imports(ast.parse("if TYPE_CHECKING:\n    from esan.cli.main import app"))) == []


def _modules() -> dict[str, Path]:
    found = {}
    for path in FILES:
        name = ".".join(("esan", *path.relative_to(ROOT).with_suffix("").parts))
        found[name.removesuffix(".__init__")] = path
    return found


def _edges(name: str, tree: ast.AST, modules: Collection[str]) -> set[str]:
    """The modules that a module imports, wherever in it, names for type checkers included; of a package its parts."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found = {other for other in found if other in modules and other != name}
    return {other for other in found if not any(part.startswith(f"{other}.") for part in found)}


def _cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules that import one another in a circle: those that are left when leaves are taken away."""
    left = {name: set(others) for name, others in edges.items()}
    while leaves := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in leaves}
    # What only leads into a circle is no part of it.
    while sources := left.keys() - {other for others in left.values() for other in others}:
        left = {name: others for name, others in left.items() if name not in sources}
    return sorted(left)


def test_no_module_imports_itself_through_others() -> None:
    modules = _modules()
    edges = {name: _edges(name, _tree(path), modules) for name, path in modules.items()}
    assert not _cycle(edges)


def test_a_circle_of_imports_would_be_seen() -> None:
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    known = {"esan.bags", "esan.bags.bag", "esan.nn"}
    hidden = "if TYPE_CHECKING:\n    from esan.bags.bag import Bag\ndef f():\n    import esan.nn"
    assert _edges("esan.wl", ast.parse(hidden), known) == {"esan.bags.bag", "esan.nn"}


#: What may be imported inside functions: optional packages, those that a start need not wait for, and one of Unix.
INSIDE = {
    *("lightning", "llvmlite", "matplotlib", "numba", "ogb", "ray", "rdkit", "torch.utils.tensorboard", "triton"),
    *("sklearn", "torchmetrics", "resource", "esan.ops.numba.loops.entry"),
}


def _inside(tree: ast.AST) -> Iterator[str]:
    """What is imported inside functions, or for type checkers alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node):
            for part in ast.walk(node):
                if isinstance(part, ast.Import):
                    yield from (alias.name for alias in part.names)
                elif isinstance(part, ast.ImportFrom):
                    yield part.module or ""


def test_imports_stand_at_the_top() -> None:
    """But for optional packages; commands import what they run when they are run."""
    for path in FILES:
        if _part(path) in ("cli", "__main__", "__init__"):  # the last of them is `esan`, whose names are lazy
            continue
        odd = [name for name in _inside(_tree(path)) if not _allowed(name)]
        assert not odd, f"{path.relative_to(ROOT)} imports {odd} inside a function"


def _allowed(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in INSIDE)


def test_a_hidden_import_would_be_seen() -> None:
    assert list(_inside(ast.parse("def f():\n    from esan.nn import GIN\n    import json"))) == ["esan.nn", "json"]


def _texts(node: ast.Compare) -> set[object]:
    """The strings that a comparison is with."""
    return {part.value for part in node.comparators if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def test_a_comparison_with_a_device_would_be_seen() -> None:
    (node,) = (n for n in ast.walk(ast.parse('x.device.type == "cuda"')) if isinstance(n, ast.Compare))
    assert _texts(node) == {"cuda"}


#: Words that name a device or a kernel's language.
MACHINE = re.compile(r"\b(is_cuda|cuda|numba|triton)\b")


@pytest.mark.parametrize("part", ["nn", "bags"])
def test_mathematics_names_no_machine(part: str) -> None:
    """Which implementation of an operator runs is decided in `esan.ops` alone; comments and docstrings may speak."""
    for path in sorted((ROOT / part).rglob("*.py")):
        tree = _tree(path)
        named = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.ImportFrom)]
        odd = [text for text in named if MACHINE.search(text)]
        compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
        odd += [ast.unparse(node) for node in compared if {"cpu", "cuda"} & _texts(node)]
        assert not odd, f"{path.relative_to(ROOT)} names {odd}"


@pytest.mark.parametrize("path", [p for p in FILES if p.name == "__init__.py"], ids=lambda p: str(p.relative_to(ROOT)))
def test_init_files_only_export(path: Path) -> None:
    """But for `esan` itself, which is lazy (tests/test_startup.py)."""
    if path == ROOT / "__init__.py":
        return
    for node in _tree(path).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert docstring or isinstance(node, ast.ImportFrom | ast.Import), ast.unparse(node)


ALONE = """
import sys

for name in ("matplotlib", "numba", "ogb", "rdkit", "ray", "hypothesis", "lightning"):
    sys.modules[name] = None  # as if it were not installed
import esan, esan.testing
from esan.graphs import csl
policy = esan.EgoNets(2, marked=True)
model = esan.dss_gnn(None, 4, 2, 1, marked=True)
esan.testing.assert_same_execution(model.double(), [csl(11, 2)], policy)
"""


def test_the_core_needs_core_dependencies_alone() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ALONE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _shared_names(trees: dict[str, ast.AST]) -> dict[str, list[str]]:
    """The names of more than one class, with the files of these classes; a leading underscore makes no difference."""
    found: dict[str, list[str]] = {}
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name.lstrip("_").lower(), []).append(file)
    return {name: files for name, files in found.items() if len(files) > 1}


def test_no_two_classes_share_a_name() -> None:
    shared = _shared_names({str(path.relative_to(ROOT)): _tree(path) for path in FILES})
    assert not shared, f"rename all but one of these classes: {shared}"


def test_a_shared_class_name_would_be_seen() -> None:
    one, other = ast.parse("class Row: ...\nclass Column: ..."), ast.parse("def f():\n    class _Row: ...")
    assert _shared_names({"a.py": one, "b.py": other}) == {"row": ["a.py", "b.py"]}
    assert not _shared_names({"a.py": one})


def _patched(tree: ast.AST) -> Iterator[str]:
    """The private names that a test replaces with `setattr`."""
    for call in _calls(tree):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "setattr":
            texts = [part.value for part in call.args[:2] if isinstance(part, ast.Constant)]
            names = [text.rsplit(".", 1)[-1] for text in texts if isinstance(text, str)]
            yield from (name for name in names if name.startswith("_") and not name.endswith("__"))


def test_tests_replace_nothing_private() -> None:
    """What a test must change is an argument, a context or a documented constant."""
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        odd = list(_patched(_tree(path)))
        assert not odd, f"{path.name} replaces {odd}"


def test_a_private_name_that_is_replaced_would_be_seen() -> None:
    text = 'm.setattr(module, "_LIMIT", 1)\nm.setattr("esan.bags.dedup._FIRST", 2)\nm.setattr(Path, "read_bytes", f)'
    assert list(_patched(ast.parse(text))) == ["_LIMIT", "_FIRST"]


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


#: A path that leads out of the current folder: to its parent, to the user's home or from the root.
OUTSIDE = re.compile(r"(?:\.\./|~/|/)[\w.]")
#: Where an operating system speaks of itself; on others nothing is there, and nothing is expected.
SYSTEM = ("/proc", "/sys/fs/cgroup")


def _places(tree: ast.AST) -> Iterator[str]:
    """The strings of a file that name a fixed place on the disk."""
    # What follows a value in an f-string continues a path that came from elsewhere.
    continued = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values[1:]}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in continued]
    texts = (node.value for node in constants if isinstance(node.value, str))
    return (text for text in texts if OUTSIDE.match(text) and text not in SYSTEM)


def test_a_fixed_place_would_be_seen() -> None:
    for text in ("'../sets/ZINC'", "'/home/someone/sets'", "Path('~/sets')", "f'/tmp/{name}.pt'"):
        assert len(list(_places(ast.parse(text)))) == 1, text
    for text in ("'raw/a.txt'", "f'{folder}/a.txt'", "'/'", "'a / b'", "'https://example.org/a'"):
        assert not list(_places(ast.parse(text))), text


def test_things_that_never_appear() -> None:
    for path in FILES:
        _check_what_never_appears(path, _tree(path))


def _check_what_never_appears(path: Path, tree: ast.Module) -> None:
    places = list(_places(tree))
    assert not places, f"{path.name} names {places}, which only some machines have: let the caller pass a path"
    for call in _calls(tree):
        name = ast.unparse(call.func)
        assert name != "print", f"{path.name} prints at line {call.lineno}"
        assert not name.startswith("pickle."), f"{path.name} pickles at line {call.lineno}"
        keywords = {k.arg: ast.unparse(k.value) for k in call.keywords}
        if name == "torch.load":
            assert keywords.get("weights_only") == "True", f"{path.name}:{call.lineno} may run code from a file"
        if name in ("np.load", "numpy.load"):
            assert keywords.get("allow_pickle") == "False", f"{path.name}:{call.lineno} may run code from a file"


def _families(tree: ast.AST) -> Iterator[str]:
    """The families of operators that a file asks a backend for."""
    for call in _calls(tree):
        if ast.unparse(call.func).rsplit(".", 1)[-1] == "implementation" and isinstance(call.args[0], ast.Constant):
            yield str(call.args[0].value)


def test_every_family_of_operators_has_a_module() -> None:
    """Without one, the reference would run everywhere, and nobody would notice but by a clock."""
    found = {family for path in FILES for family in _families(_tree(path))}
    assert {"gin", "norm", "rows"} <= found
    for family in found:
        assert any((ROOT / "ops" / backend / f"{family}.py").is_file() for backend in ("numba", "triton")), family


def test_a_family_is_found_where_it_is_asked_for() -> None:
    assert list(_families(ast.parse('fast = dispatch.implementation("rows", x)'))) == ["rows"]
