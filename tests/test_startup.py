"""Start-up: what `import esan` and a command load, the lazy names of `esan`, and an interrupt while modules load."""

import ast
import json
import signal
import subprocess
import sys
import types
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import esan
from esan.cli.main import COMMANDS, load

#: Packages that take a tenth of a second or more to import.
SLOW = ("torch", "torch_geometric", "numpy", "scipy", "sklearn", "pandas", "numba", "networkx", "matplotlib")

LOADED = """
import sys, json
{before}
try:
    {statement}
except SystemExit as ended:
    assert not ended.code, ended.code
sys.stderr.write(json.dumps(sorted(sys.modules)))
"""


def _loaded(statement: str, before: str = "") -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    code = LOADED.format(statement=statement, before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


def test_import_esan_loads_nothing_else_of_it() -> None:
    loaded = _loaded("import esan")
    assert {name for name in loaded if name.split(".")[0] == "esan"} == {"esan"}
    assert not loaded & {*SLOW, "torch._dynamo", "torch_geometric.nn"}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_line_starts_without_torch(option: str) -> None:
    loaded = _loaded("main()", f"from esan.__main__ import main; sys.argv = ['esan', {option!r}]")
    assert "esan.cli.main" in loaded
    assert not loaded & {*SLOW, "esan.bags", "esan.nn", "esan.train"}


def test_a_module_that_is_loaded_would_be_seen() -> None:
    assert {"esan.plural", "esan"} <= _loaded("import esan.plural")


def _static() -> dict[str, str]:
    """The names that type checkers see in `esan`, each with the module it comes from."""
    blocks = [node for node in ast.parse(Path(esan.__file__).read_text()).body if isinstance(node, ast.If)]
    (block,) = (node for node in blocks if ast.unparse(node.test) == "TYPE_CHECKING")
    found: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        found |= {alias.asname or "": node.module or "" for alias in node.names}
    return found


def test_type_checkers_see_the_names_that_there_are() -> None:
    assert sorted(_static()) == sorted(esan.__all__)
    for name, module in _static().items():
        here = import_module(f"esan.{name}") if module == "esan" else getattr(import_module(module), name)
        assert getattr(esan, name) is here


def test_names_are_listed_and_others_refused() -> None:
    assert set(esan.__all__) <= set(dir(esan))
    assert not {"Any", "import_module", "TYPE_CHECKING"} & set(dir(esan))
    with pytest.raises(AttributeError, match="module 'esan' has no attribute 'Bags'"):
        _ = esan.Bags  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Bags"):
        from esan import Bags  # type: ignore[attr-defined]  # noqa: F401


def test_a_module_never_hides_a_function_of_its_name() -> None:
    """Whoever imports a submodule binds its name in `esan`: no other public name may be the same."""
    for name, module in _static().items():
        if module != "esan":
            assert not (Path(esan.__file__).parent / f"{name}.py").exists(), name
            assert not isinstance(getattr(esan, name), types.ModuleType), name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_sentence_of_their_help(name: str) -> None:
    assert load(name).help.split("\n\n")[0].replace("\n", " ") == COMMANDS[name]


WAITING = """
import sys, types

class Slow:
    # Finds a module that takes long to import: what an interrupt meets.
    def find_spec(self, name, path=None, target=None):
        if name == {slow!r}:
            print("loading", flush=True)
            import time
            time.sleep(30)

sys.meta_path.insert(0, Slow())
from esan.__main__ import main
sys.argv = ["esan", "wl", "rook", "shrikhande"]
main()
"""


SLOWEST = pytest.param("torch_geometric", marks=pytest.mark.exhaustive)


@pytest.mark.parametrize("slow", ["signal", "typer", "pydantic", "esan.cli.commands.wl", "torch", SLOWEST])
def test_an_interrupt_while_modules_load_is_one_line(slow: str) -> None:
    if slow == "pydantic" and find_spec("typer._adapters") is None:
        pytest.skip("this version of typer does without pydantic")
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING.format(slow=slow)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "loading\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert errors == "Interrupted.\n"
    assert child.returncode == 130
