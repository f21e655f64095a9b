"""scripts/vllm_pair.sh, with a stand-in for the vllm command: what it starts, and what it says when that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.remote.server import Script, serving

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "vllm_pair.sh"


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | settings
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, env=environment, timeout=30)


def test_without_a_model_it_says_how_it_is_called() -> None:
    done = run()
    assert done.returncode == 2 and "scripts/vllm_pair.sh MODEL" in done.stderr


def test_without_vllm_it_says_what_to_install() -> None:
    done = run("model", VLLM="no-such-command")
    assert done.returncode == 1 and "install vLLM" in done.stderr


def test_a_server_that_ends_at_once_is_said(tmp_path: Path) -> None:
    vllm = tmp_path / "vllm"
    vllm.write_text('#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES: $*"\nexit 3\n')
    vllm.chmod(0o755)
    with serving(Script()) as script:
        port = script.url.rsplit(":", 1)[1]
    done = run("folder", "--max-model-len", "9", VLLM=str(vllm), BASELINE_PORT=port, BASELINE_GPUS="2,3")
    assert done.returncode == 1 and f"port {port} ended before it was ready" in done.stderr
    assert done.stdout.startswith(f"2,3: serve folder --host 127.0.0.1 --port {port} ")
    assert "--speculative-config" not in done.stdout and done.stdout.endswith("--max-model-len 9\n")


VLLM = """#!{python}
import sys, http.server
if "--help=all" in sys.argv:
    print({known!r})
    sys.exit()
print(*sys.argv[1:], flush=True)
if "--speculative-config" in sys.argv:
    sys.exit(3)
port = int(sys.argv[sys.argv.index("--port") + 1])
handler = http.server.SimpleHTTPRequestHandler
handler.do_GET = lambda self: (self.send_response(200), self.end_headers())
http.server.HTTPServer(("127.0.0.1", port), handler).serve_forever()
"""


@pytest.mark.parametrize("known", ["--enable-per-request-metrics --per-request-spec-decode-metrics {a,b}", ""])
def test_both_tell_times_and_the_speculative_one_its_drafts_where_this_vllm_can(tmp_path: Path, known: str) -> None:
    vllm = tmp_path / "vllm"
    vllm.write_text(VLLM.format(python=sys.executable, known=known))
    vllm.chmod(0o755)
    with serving(Script()) as one, serving(Script()) as other:
        ports = [script.url.rsplit(":", 1)[1] for script in (one, other)]
    done = run("folder", VLLM=str(vllm), BASELINE_PORT=ports[0], SPECULATIVE_PORT=ports[1])
    baseline, speculative = done.stdout.splitlines()
    both = "--served-model-name model --no-enable-prefix-caching"
    assert baseline.endswith(f"--port {ports[0]} {both}" + " --enable-per-request-metrics" * bool(known))
    told = " --per-request-spec-decode-metrics detailed --enable-per-request-metrics" if known else ""
    assert speculative.startswith(f"serve folder --host 127.0.0.1 --port {ports[1]} {both} --speculative-config ")
    assert speculative.endswith("}" + told)
    assert ("has no --enable-per-request-metrics" in done.stderr) == (not known)
