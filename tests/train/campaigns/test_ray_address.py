"""Addresses of Ray clusters: what is none is refused at once, and nobody who does not answer is waited for."""

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from esan.cli.main import app
from esan.train.campaigns.ray_cluster import RayCluster

pytest.importorskip("ray")


@pytest.mark.parametrize("address", ["x", "h:0", "h:99999", "::1", "ray://", "a b:1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match=r"^Expected the address of a Ray cluster as host:port.*\(got .*\)\. Take the"):
        list(RayCluster(address).map(print, [1]))


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"address": 5}, r"^Expected address to be text \(got 5\)"),
        ({"address": " "}, r"^Expected the address of a Ray cluster \(got ' '\)"),
        ({"timeout": 0}, r"^Expected a timeout above 0 seconds \(got 0\)"),
        ({"timeout": float("nan")}, r"^Expected a timeout above 0 seconds \(got nan\)"),
        ({"gpus": -1}, r"^Expected gpus of 0 or more \(got -1\)"),
    ],
)
def test_arguments(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises((ValueError, TypeError), match=match):
        RayCluster(**arguments)


def test_nobody_there_is_reported_at_once() -> None:
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ValueError, match=rf"^Expected a Ray cluster at 127.0.0.1:{port} \(got no answer within 99 s\)"):
        list(RayCluster(f"127.0.0.1:{port}", timeout=99).map(print, [1]))
    assert time.monotonic() - began < 90


@pytest.mark.exhaustive
def test_somebody_who_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    """A server that takes connections and says nothing: Ray alone waits for many minutes."""
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        options = ["--address", f"127.0.0.1:{port}", "--wait", "0.5", "--runs", str(tmp_path)]
        result = CliRunner().invoke(app, ["campaign", "csl/gin", "--executor", "ray", *options])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Expected a Ray cluster at 127.0.0.1:{port} (got no answer within 0.5 s).")
    assert len(result.stderr.strip().splitlines()) == 1
    assert time.monotonic() - began < 120


def test_the_address_of_the_environment_is_asked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setitem(os.environ, "RAY_ADDRESS", f"127.0.0.1:{server.getsockname()[1]}")
    with pytest.raises(ValueError, match=r"^Expected a Ray cluster at 127.0.0.1:.*no answer within 3 s"):
        list(RayCluster("auto", timeout=3).map(print, [1]))


@pytest.mark.parametrize("option", [["--address", "h:1"], ["--wait", "3"]])
def test_options_of_ray_go_with_ray_alone(option: list[str]) -> None:
    result = CliRunner().invoke(app, ["campaign", "csl/gin", *option])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Expected --executor ray with {option[0]} (got 'serial'). Leave {option[0]} out.")
