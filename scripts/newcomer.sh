#!/usr/bin/env bash
# Plays somebody who has just found the program: fresh clone, fresh home, a user who is not root; README's line that runs
# it, until its pair is ready; then a race over the API as docs/api.md shows it, and a replay without a model.
# scripts/newcomer.sh [FOLDER]: FOLDER may hold a `clone` and a `home` in which the packages are installed already.
set -euo pipefail

. "$(dirname "$0")/fresh.sh"
scratch=${1:-$(mktemp -d)}
page=
leave() {
  if [ -n "$page" ]; then kill -- "-$page" 2>/dev/null || true; fi
  if [ "$scratch" != "${kept:-}" ]; then rm -rf "$scratch"; fi
}
kept=${1:-}
trap leave EXIT

fresh "$scratch"
cd "$scratch/clone"

# stand COMMAND...: in the background, until its page stands; sets page, a process group, and url.
stand() {
  setsid "$@" >"$scratch/page.log" 2>&1 &
  page=$!
  until url=$(grep -oE -m1 'http://127\.0\.0\.1:[0-9]+' "$scratch/page.log"); do
    kill -0 "$page" 2>/dev/null || { cat "$scratch/page.log"; echo "The page did not stand."; page=; exit 1; }
    sleep 0.2
  done
}

fall() {
  kill -- "-$page"
  wait "$page" 2>/dev/null || true
  page=
}

python() { "${clean[@]}" .venv/bin/python "$@"; }

run_line=$(readme_line 'python app\.py$')
say "$run_line, as user $("${clean[@]}" id -u)"
stand "${clean[@]}" bash -c "$run_line"
echo "The page stands at $url."
python - "$url" <<'PYTHON' || { cat "$scratch/page.log"; exit 1; }
import sys

from gradio_client import Client

from tests.load.page import ready

client = Client(sys.argv[1], verbose=False)
ready(lambda: client.predict(api_name="/health"))
print("The pair is ready.")
PYTHON

say "docs/api.md: compare"
example=$(awk '/^```python$/ {on = 1; next} /^```$/ {if (on) exit} on' docs/api.md)
answer=$(python -c "${example//http:\/\/127.0.0.1:7860/$url}") || { cat "$scratch/page.log"; exit 1; }
echo "$answer"
grep -qE '^[0-9.]+ [0-9.]+ ' <<<"$answer" || { echo "That says no speedup and no acceptance rate."; exit 1; }
fall

say "a replay, without a model"
python - <<'PYTHON'
from specdemo.bench.page_client import serve
from specdemo.race import Lane
from specdemo.ui.replay import recorded_runs

recorded = min(recorded_runs(), key=lambda run: max(run.metrics(lane).seconds for lane in Lane))
with serve(["--replay-only"]) as page:
    shown = page.run(recorded.prompt)
for lane in Lane:
    tokens = recorded.metrics(lane).tokens
    assert len(shown[lane].ids) == tokens, f"{lane}: {len(shown[lane].ids)} of {tokens} tokens were shown"
    print(lane, tokens, "tokens")
PYTHON

say "a newcomer gets through"
