"""The explorer's server and page: who is answered, what is refused, and what the page may do."""

import base64
import hashlib
import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from esan.cli.main import app
from esan.explore import Choice, Server, page, save_page
from esan.explore.server import MOST_BYTES

CHOICE = {"graphs": ["cycle(4)"], "test": "ds", "policy": "ED"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as found:
        yield found


def _ask(
    server: Server, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body=body, headers=headers or {})
    reply = connection.getresponse()
    found = reply.status, dict(reply.getheaders()), reply.read()
    connection.close()
    return found


def _post(server: Server, sent: object = CHOICE, **headers: str) -> tuple[int, dict[str, str], bytes]:
    given = {"X-Esan-Token": server.token, "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return _ask(server, "POST", "/view", given, sent if isinstance(sent, bytes) else json.dumps(sent).encode())


def test_its_own_page_is_answered(server: Server) -> None:
    status, headers, body = _ask(server, "GET", f"/?token={server.token}")
    assert status == 200
    assert server.token in body.decode()
    assert "'unsafe" not in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    status, _, body = _post(server, Origin=f"http://127.0.0.1:{server.port}")
    assert status == 200
    assert json.loads(body)["view"]["rounds"] == 2


def test_it_listens_on_the_loopback_address_alone(server: Server) -> None:
    assert server._http.server_address[0] == "127.0.0.1"
    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        pytest.skip("needs a machine with an address of its own")
    with pytest.raises(OSError, match=r"refused|timed out"), socket.create_connection((own, server.port), timeout=2):
        pass


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"X_Esan_Token": "guess"},
        {"X_Esan_Token": ""},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_others_are_refused(server: Server, headers: dict[str, str]) -> None:
    status, _, body = _post(server, **headers)
    assert status == 403
    assert b"view" not in body


def test_pages_need_the_token_and_there_is_no_other_path(server: Server) -> None:
    for path in ("/", "/?token=", "/?token=guess"):
        status, _, body = _ask(server, "GET", path)
        assert status == 403
        assert server.token.encode() not in body
    for path in ("/../../etc/passwd", "/static/app.js", "//etc/passwd", f"/etc/passwd?token={server.token}"):
        assert _ask(server, "GET", path)[0] == 404
    assert _ask(server, "GET", f"/?token={server.token}", {"Host": "evil.example"})[0] == 403
    assert _ask(server, "PUT", "/view")[0] == 501


def test_files_are_not_read(server: Server, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("0 1\n")
    for text in (str(secret), f"{secret}:1", "/etc/passwd"):
        status, _, body = _post(server, {**CHOICE, "graphs": [text]})
        error = json.loads(body)["error"]
        assert (status, error["field"]) == (200, "g")
        assert error["message"].startswith("Expected the name of a graph, or a line of graph6")


def test_bad_requests_get_one_clear_error(server: Server) -> None:
    for sent, field in ((b"{", "view"), (b"[" * 50_000, "view"), (b"\xff", "view"), ({"graphs": []}, "view")):
        status, _, body = _post(server, sent)
        assert (status, json.loads(body)["error"]["field"]) == (200, field)
    assert _post(server, b"x" * (MOST_BYTES + 1))[0] == 413
    assert _post(server, Content_Type="text/plain")[0] == 415
    given = {"X-Esan-Token": server.token, "Content-Type": "application/json", "Content-Length": "-1"}
    assert _ask(server, "POST", "/view", given)[0] == 411


def test_a_page_allows_its_own_scripts_and_nothing_else(tmp_path: Path) -> None:
    text = save_page(tmp_path / "page.html", Choice.of(["cycle(4)"], "ds", "ED")).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'none'" in policy[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert (len(scripts), len(styles)) == (2, 1)
    for part in (*scripts, *styles):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert not re.search(r'(src|href)="(?!data:,|#)', text.replace("".join(scripts), ""))


def test_names_cannot_leave_their_place() -> None:
    evil = "</script><script>%APP%<!--%D3%&"
    text = page(Choice.of(["cycle(4)"], "ds", "ED", names=[evil]), stories=False)
    assert evil not in text
    assert text.count("</script>") == 3
    data = re.search(r'id="setup">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])["views"][0]["view"]["graphs"][0]["name"] == evil


RUNNER = CliRunner(env={"COLUMNS": "300"})


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    (tmp_path / "two.g6").write_text("E?bw\nEhEG\n")
    file = tmp_path / "page.html"
    given = RUNNER.invoke(app, ["explore", f"{tmp_path}/two.g6:2", "cycle(6)", "--test", "1", "--export", str(file)])
    assert given.exit_code == 0, given.output
    assert file.read_text().startswith("<!doctype html>")
    drawn = tmp_path / "wl.html"
    given = RUNNER.invoke(app, ["wl", "cycle(6)", "2xcycle(3)", "--test", "ds", "--draw", str(drawn)])
    assert given.exit_code == 0, given.output
    assert "Round 2: a node that saw 1, 2 exists in cycle(6) only." in given.stdout
    assert "a node that saw 1, 2 exists" in drawn.read_text()
    pair = [f"{tmp_path}/two.g6[{number}]" for number in (0, 1)]
    given = RUNNER.invoke(app, ["wl", *pair, "--test", "1", "--draw", str(tmp_path / "numbered.html")])
    assert given.exit_code == 0, given.output
    assert (tmp_path / "numbered.html").is_file(), "what the command reads, its page shows"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rok"], "Did you mean rook"),
        (["rook", "--export", "page.png"], "ends in .html"),
        (["rook", "--policy", "EDD"], "name of a policy"),
        (["rook", "--port", "70000"], "port of at most 65,535"),
        (["--file", "missing.g6"], "which is not there"),
        (["rook", "--export", "a.html", "--link", "#g=rook"], "--link without --export"),
    ],
)
def test_the_command_refuses_in_one_line(arguments: list[str], message: str) -> None:
    given = RUNNER.invoke(app, ["explore", "--no-browser", *arguments])
    assert given.exit_code == 2
    assert message in given.output
