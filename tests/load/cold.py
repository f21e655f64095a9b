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

ROOT = Path(__file__).parents[2]
PROMPT = "Write a Python function that removes duplicates from a list."


def main() -> None:
    """Print seconds and bytes."""
    with tempfile.TemporaryDirectory() as cache:
        begun = time.monotonic()
        page = subprocess.Popen(
            [sys.executable, "app.py", "--public"],
            cwd=ROOT,
            env=os.environ | {"SPECDEMO_CACHE": cache, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = next(found[0] for line in page.stdout if (found := re.search(r"http://[\d.]+:\d+", line)))
            stands = time.monotonic()
            client = Client(url, verbose=False)
            while (health := client.predict(api_name="/health"))["state"] == "loading":
                time.sleep(0.2)
            ready = time.monotonic()
            loaded = client.predict(api_name="/pairs")["loaded"]
            answer = client.predict(PROMPT, max_new_tokens=128, api_name="/compare")
            raced = time.monotonic()
            peak = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{page.pid}/status").read_text("utf-8"))
        finally:
            page.terminate()
            page.wait()
    print(f"{health['state']}: {', '.join(loaded)}")
    print(f"the page stood after {stands - begun:.0f} s, the pair was ready after {ready - begun:.0f} s")
    print(f"a first race took {raced - ready:.0f} s: {answer['verdict']}")
    print(f"at most {int(peak[1]) / 2**20:.2f} GiB were resident")


if __name__ == "__main__":
    main()
