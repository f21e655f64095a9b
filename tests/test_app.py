"""The starter: it ends soon after a SIGTERM, and lets in who knows the password."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import app
from specdemo.app_options import app_parser

ROOT = Path(__file__).resolve().parent.parent
MID_RUN = """
import logging
import app
from gradio_client import Client
from tests.ui.served import served
from tests.ui.synthetic import Synthetic

class Late(logging.StreamHandler):  # writes what was logged only when it is flushed
    kept = []
    def emit(self, record):
        self.kept.append(record.getMessage())
    def flush(self):
        while self.kept:
            print(self.kept.pop(0), flush=True)

app.leave_on_sigterm()
with served(Synthetic(hold_at=20)) as house:
    logging.getLogger().addHandler(Late())
    Client(house.url, verbose=False).submit("Tell me", api_name="/compare")
    house.script.held.wait(60)
    logging.warning("what was logged last")
    print("held", flush=True)
    app.stay(house.page.blocks)
"""


def test_sigterm_in_the_middle_of_a_run_ends_the_program_and_flushes_the_log() -> None:
    assert app.LEAVE_SECONDS < 5, "after which it ends whatever still runs"
    running = subprocess.Popen([sys.executable, "-c", MID_RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert "held\n" in running.stdout  # reads up to that line
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == app.TERMINATED
        assert "what was logged last" in running.stdout.read()
    finally:
        running.kill()


def test_the_password_is_taken_out_of_the_environment_and_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_PASSWORD", "ann:se:cret")
    knows = app.doorkeeper("DEMO_PASSWORD")
    assert "DEMO_PASSWORD" not in app.os.environ
    assert knows("ann", "se:cret")
    assert not knows("ann", "secret") and not knows("bob", "se:cret") and not knows("", "") and not knows("ä", "ß")
    assert app.doorkeeper(None) is None


@pytest.mark.parametrize("value", [None, "", "secret", ":secret", "ann:"])
def test_a_password_that_is_not_there_is_a_sentence(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEMO_PASSWORD", raising=False)
    if value is not None:
        monkeypatch.setenv("DEMO_PASSWORD", value)
    with pytest.raises(SystemExit, match="DEMO_PASSWORD does not hold a name and a password"):
        app.doorkeeper("DEMO_PASSWORD")


def test_an_address_that_cannot_be_had_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    app.check_address("127.0.0.1", None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit, match="Name another with"):
        app.check_address("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(SystemExit, match=r"No page can be served at 256\.0\.0\.1: "):
        app.check_address("256.0.0.1", None)
    for port in ("0", "-1", "65536", "web"):
        with pytest.raises(SystemExit):
            app_parser().parse_args([f"--port={port}"])
        assert "must be a whole number between 1 and 65535" in capsys.readouterr().err


def test_loading_begins_when_the_page_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    page = Mock(**{name: lambda *_, _name=name, **__: happened.append(_name) for name in ("launch", "block_thread")})
    monkeypatch.setattr("specdemo.ui.page.build_page", lambda *_, **__: page)
    monkeypatch.setattr("specdemo.ui.desk.Desk.open", lambda desk: happened.append("open"))
    monkeypatch.setattr("specdemo.ui.spared.spare_collections", lambda: happened.append("spared"))
    monkeypatch.setattr(app, "leave_on_sigterm", lambda: None)
    monkeypatch.setattr(sys, "argv", ["app.py"])
    app.main()
    assert happened == ["launch", "spared", "open", "block_thread"]
