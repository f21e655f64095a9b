"""How long does a start from nothing take, and how much memory? `python -m tests.load.cold` says so, on Linux.

app.py in public, with a cache that holds nothing, until its first race over the API has ended.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gradio_client import Client

from tests.load.page import ROOT, ready, stands

SECONDS, GIB = 90, 4  # in which it is to be ready, under which it is to stay
PROMPT = "Write a Python function that removes duplicates from a list."


def main() -> None:
    """Print seconds and bytes; exit code 1 where they are more than a Space of 2 CPUs is to take."""
    with tempfile.TemporaryDirectory() as cache:
        begun = time.monotonic()
        page = subprocess.Popen(
            [sys.executable, "app.py", "--public"],
            cwd=ROOT,
            env=os.environ | {"SPECDEMO_CACHE": cache, "HF_HOME": cache, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url, stood = stands(page), time.monotonic()
            client = Client(url, verbose=False)
            ready(lambda: client.predict(api_name="/health"))
            loaded_at = time.monotonic()
            loaded = client.predict(api_name="/pairs")["loaded"]
            answer = client.predict(PROMPT, max_new_tokens=128, api_name="/compare")
            raced = time.monotonic()
            peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{page.pid}/status").read_text("utf-8"))
        finally:
            page.terminate()
            page.wait()
    seconds, gib = loaded_at - begun, int(peak[1]) / 2**20
    print(f"ready: {', '.join(loaded)}")
    print(f"the page stood after {stood - begun:.0f} s, the pair was ready after {seconds:.0f} s")
    print(f"a first race took {raced - loaded_at:.0f} s: {answer['verdict']}")
    print(f"at most {gib:.2f} GiB were resident")
    raise SystemExit(seconds > SECONDS or gib >= GIB)


if __name__ == "__main__":
    main()
