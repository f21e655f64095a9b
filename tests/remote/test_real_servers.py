"""Two vLLM servers that run now: what a lane counts is what they counted. Only where SPECDEMO_VLLM_URLS names them.

scripts/vllm_pair.sh starts such a pair; nothing else may ask them meanwhile.
SPECDEMO_VLLM_URLS="http://127.0.0.1:8000 http://127.0.0.1:8001" python -m pytest tests/remote/test_real_servers.py
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from specdemo.metrics import LaneMetrics
from specdemo.race import Lane, Mode, Request
from specdemo.recording import RaceRecord
from specdemo.remote import racing
from specdemo.remote.counters import difference
from specdemo.remote.facts import Provenance
from specdemo.remote.options import Servers

URLS = os.environ.get("SPECDEMO_VLLM_URLS", "").split()


@pytest.mark.skipif(len(URLS) != 2, reason="SPECDEMO_VLLM_URLS does not name a plain and a speculative server")
def test_a_race_counts_as_the_servers_do() -> None:
    pair = racing.connect(Servers(*URLS))
    request = racing.check(Request((), max_new_tokens=64, mode=Mode.ONE_AFTER_ANOTHER))
    prompt = "Repeat this list three times: red apple, green pear, blue plum, red apple, green pear, blue plum."
    request = replace(request, prompt_ids=pair.encode(racing.said(prompt)))
    lanes = pair.lanes(request)
    before = pair.endpoints[Lane.SPECULATIVE].counters()
    arrived = [wrote for wrote in racing.race(lanes, request.mode) if wrote is not None]
    record = RaceRecord(prompt, request)
    record.settle(racing.settle(request, lanes))
    counted = difference(before, pair.endpoints[Lane.SPECULATIVE].counters())
    pair.close()
    assert not any(lane.fault for lane in lanes.values()) and arrived
    assert lanes[Lane.BASELINE].provenance is Provenance.PLAIN
    assert lanes[Lane.SPECULATIVE].provenance in (Provenance.TOLD, Provenance.COUNTED)
    speculative: LaneMetrics = record.metrics(Lane.SPECULATIVE)
    counts = (speculative.steps_that_drafted, speculative.drafted, speculative.accepted)
    assert counts == (counted.drafts, counted.drafted, counted.accepted)
