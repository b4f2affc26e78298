"""Command lines as one may get them wrong, for every command; `{name}` stands for a file of `made`."""

import gzip
import json
from pathlib import Path

from esan.graphs import cycle, path, star, to_graph6

#: Numbers that are none, or none of use, as text.
FAR, LONG = "99999999999999999999", "9" * 5000
NUMBERS = ("-1", "0", "1.5", "nan", "inf", "x", "", " ", FAR, LONG, "1e3", "²", "None")
#: Those that are no time either.
NEVER_SECONDS = ("-1", "nan", "x", "", " ", "²", "None")
PATHS = ("{none}", "{folder}", "{binary}", "{empty}", "{words}", "", "\udcff", "x" * 5000, "/proc/self/mem")
GRAPHS = (
    *("cycle(2)", "cycle(99999999)", "complete(100000)", "rook(3000)", "99999999xcycle(3)", "0xcycle(3)"),
    *("cycle()", "cycle(3,4,5)", "cycle(-3)", "csl(12)", "csl(12,6)", "csl(12,1)", "cycle(" + "9" * 5000 + ")"),
    *("cycle(3)+", "+", "cycle(3)+nothing", "{none}.g6", "{torn}", "{pairs}", "{weighted}", "{hole}", "DQ", "D" * 4000),
)
POLICIES = (
    *("", " ", "XX", "EGO(0)", "EGO(-1)", "EGO(99999999999999999999)", "ND(0)", "ND(99999999999999999999)", "ED(2)"),
    *("ED@0", "ED@2", "ED@nan", "ED@", "ED@x", "@0.5", "^", "ED^^", "EGO(2", "ND(" + "9" * 5000 + ")", "ED ED"),
    *("Augmented(" * 300, "Sampled(policy=ED, fraction=2)", "EgoNets(hops=True)", "NodeDeletion(k=0)", "ed"),
)
RANGES = ("", " ", "x", "-1", "1.5", "3..", "..3", "3..1", "0..99999999999", "0,,1", "²", "0..1..2", "9" * 30, "0;1")
SETTINGS = (
    *(
        "",
        "=",
        "lr",
        "lr=",
        "lr=x",
        "lr=-1",
        "lr=nan",
        "lr=inf",
        "lr=0",
        "hidden_channels=0",
        "hidden_channels=100000000000",
    ),
    *(
        "hidden_channels=1.5",
        "width=8",
        "num_layers=0",
        "num_layers=1000000000",
        "num_layers=x",
        "epochs=0",
        "epochs=99999999999999",
        "batch_size=0",
        "votes=0",
    ),
    *("model=gnn", "model=x", "conv=x", "policy=XX", "policy=", "policy=ED@2", "fraction=0", "fraction=2", "jk=x"),
    *("dropout=1", "dropout=-0.1", "schedule=x", "select=x", "split=x", "folds=1", "seeds=0", "split_seed=-1"),
    *(
        "split_seed=99999999999999999999",
        "nonsense=1",
        "name=../x",
        "name=" + "x" * 500,
        "grid=5",
        "grid=[]]",
        "data=5",
    ),
    *(
        "data=5",
        "data=nothing",
        "task=x",
        "labels={none}",
        "double=yes",
        "lr=" + "9" * 5000,
        "lr=" + "[" * 2000,
        "norm=x",
    ),
)
DEVICES = ("", "x", "cuda:99", "meta", "cpu:-1", "hpu", "mps", "5", "cuda:x")


def command_lines() -> list[list[str]]:
    """All of them; each is an error."""
    lines: list[list[str]] = [["nothing"], ["--nothing"], ["bag"], ["wl", "rook"], ["train", "a", "b"], ["report"]]
    commands = ("bag", "wl", "advise", "train", "predict", "campaign", "search", "bench", "compile", "reproduce")
    lines += [[name, "--nothing"] for name in commands]
    out, runs, draw = ["--out", "{out}/advice.json"], ["--runs", "{out}"], ["--draw", "{out}/a.png"]
    for graph in (*GRAPHS, *PATHS):
        lines += [["bag", graph], ["wl", graph, "rook"], ["wl", "cycle(3)", graph, "--test", "1"]]
    for policy in POLICIES:
        lines += [["bag", "rook", "--policy", policy], ["wl", "rook", "shrikhande", "--policy", policy]]
        lines += [["advise", "{graphs}", "--policy", policy, *out]]
    for number in NUMBERS:
        lines += [["bag", "rook", "--num-layers", number], ["advise", "{graphs}", "--num-layers", number, *out]]
        lines += [["bag", "rook", f"--most={number}", *draw] for _ in range(number not in (FAR, LONG))]
        lines += [["wl", "rook", "rook", f"--most={number}", *draw]]
        lines += [["campaign", "{recipe}", "--executor", "processes", f"--workers={number}", *runs]]
        lines += [["campaign", "{recipe}", f"--together={number}", *runs] for _ in range(number not in (FAR, LONG))]
        lines += [["bench", "csl/gin", f"--epochs={number}"], ["bench", "csl/gin", f"--seeds={number}"]]
        lines += [["bag", "rook", f"--graph={number}"] for _ in range(number not in ("0", "-1"))]
        lines += [["train", "{recipe}", f"--every={number}", *runs] for _ in range(number in NEVER_SECONDS)]
        ray = ["campaign", "{recipe}", "--executor", "ray", f"--wait={number}"]
        lines += [ray for _ in range(number in (*NEVER_SECONDS, "0", "inf"))]
    for some in RANGES:
        lines += [["train", "{recipe}", f"--{option}={some}", *runs] for option in ("seeds", "folds")]
        lines += [["campaign", "{recipe}", f"--seeds={some}", *runs], ["search", "{recipe}", f"--folds={some}", *runs]]
        lines += [["reproduce", "csl", f"--seeds={some}"]]
    for setting in SETTINGS:
        lines += [["train", "{recipe}", "--set", setting, *runs]]
        # Of a campaign, runs whose data is wrong fail each for itself, and the others go on.
        if not setting.startswith(("data=n", "labels=", "task=")):
            lines += [[command, "{recipe}", "--set", setting, *runs] for command in ("campaign", "search")]
    for device in DEVICES:
        lines += [[command, "{recipe}", "--device", device, *runs] for command in ("train", "campaign")]
        lines += [["predict", "{run}", "{graphs}", "--device", device], ["bench", "csl/gin", "--device", device]]
    for file in (*PATHS, "{graphs}", "{torn}", "nothing/gin", "csl/nothing", "zinc/dss-gin-xx", "{nested}", "{list}"):
        lines += [[command, file or "/"] for command in ("train", "campaign", "search", "bench")]
    for file in (*PATHS, "{graphs}", "{recipe}", "{torn}"):
        lines += [["predict", file, "{graphs}"], ["report", file, "--out", "{out}/report.html"]]
    for file in (*PATHS, "{recipe}", "{torn}", "{weighted}"):
        lines += [["predict", "{run}", file, "--out", "{out}/p.csv"], ["advise", file, *out]]
        lines += [["advise", "{graphs}", "--labels", file, *out]]
    for table in ("", "x", "TU", "all ", "5"):
        lines += [["reproduce", table, "--dry", "--results", "{out}"], ["reproduce", "csl", "--row", table, "--dry"]]
    lines += [["wl", "rook", "rook", "--test", test] for test in ("", "x", "3", "DSS", "1 ")]
    lines += [["wl", "rook", "rook", "--test", "1", "--policy", "ED"], ["wl", "rook", "rook", "--test", "2-fwl", *draw]]
    lines += [["bag", "rook", "--draw", file] for file in ("", "{folder}", "a", "{file}/a.png", "{out}/a.nothing")]
    lines += [["bag", "rook", "--save", file] for file in ("", "{folder}", "{file}/a.bag", "/proc/nothing/a.bag")]
    lines += [["predict", "{run}", "{graphs}", "--weights", weights] for weights in ("", "x", "Best")]
    lines += [["campaign", "{recipe}", "--executor", executor] for executor in ("", "x", "Ray", "process")]
    addresses = ("", " ", "x", "h:0", "h:99999", "::1", "ray://", "127.0.0.1:1")
    lines += [["campaign", "{recipe}", *runs, "--executor", "ray", "--address", address] for address in addresses]
    lines += [["search", "{recipe}", "--address", "h:1"], ["reproduce", "csl", "--wait", "3"]]
    lines += [["train", "{recipe}", "--runs", "{file}"], ["train", "{recipe}", "--wandb", "", *runs]]
    lines += [["reproduce", "csl", "--grid", "--seeds", "3"], ["reproduce", "timing", "--grid"]]
    lines += [["train", "zzz", "--list"], ["train", "\0", "--list"], ["bench", "x"]]
    return lines


def made(folder: Path) -> dict[str, str]:
    """The files that command lines name, by what they are called there; `run` is left to who can train."""
    graphs = "".join(f"{to_graph6(graph)}\n" for graph in (cycle(4), path(4), star(3), cycle(5)) * 4)
    texts = {
        "graphs": ("graphs.g6", graphs),
        "labels": ("labels.txt", "0\n1\n" * 8),
        "recipe": ("own.toml", f'data = "{folder}/graphs.g6"\nlabels = "{folder}/labels.txt"\nepochs = 1\nwidth = 4\n'),
        "torn": ("torn.g6", "D\x01\x02 ~~~\n"),
        "words": ("words.txt", "these are words\n"),
        "pairs": ("pairs.txt", "0 1\n1 99999999999999999999\n"),
        "weighted": ("weighted.txt", "0 1 0.5\n"),
        "hole": ("hole.txt", "0 99999999999\n"),
        "nested": ("nested.toml", "data = " + "[" * 5000),
        "list": ("list.toml", json.dumps([1, 2])),
        "file": ("file", "x"),
        "empty": ("empty", ""),
    }
    for name, text in texts.values():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "binary.npz").write_bytes(gzip.compress(b"\x80\xff\x00" * 50))
    (folder / "folder").mkdir()
    there = {name: str(folder / file) for name, (file, _) in texts.items()}
    there |= {"binary": str(folder / "binary.npz"), "folder": str(folder / "folder"), "none": str(folder / "none")}
    return there | {"out": str(folder / "out")}
