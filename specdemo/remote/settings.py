"""What may the requests of one lane have that those of the other do not? How its server drafts for them, in its words.

An engine that takes such fields can be both lanes' server: LM Studio takes draft_model (docs/vllm.md has more).
"""

from __future__ import annotations

import json
from typing import Any

from specdemo.remote.faults import RemoteFault

Settings = dict[str, Any]
EXAMPLE = """'{"draft_model": "NAME"}'"""
MOST = 1000  # characters: they are shown beside the figures

# Set by this program in each request, for both lanes alike, or fields that would make it another request.
OURS = {
    *("model", "prompt", "max_tokens", "stream", "stream_options", "return_token_ids", "temperature", "seed", "top_k"),
    *("top_p", "min_p", "repetition_penalty", "stop", "messages", "max_completion_tokens", "n_predict", "n", "best_of"),
    *("n_cmpl", "echo", "suffix"),
}


def read_settings(option: str, text: str) -> Settings:
    """The fields that an option gives as a JSON object; raises RemoteFault."""
    if len(text) > MOST:
        raise RemoteFault(f"{option} has {len(text):,} characters, and {MOST:,} are taken: leave out what both share.")
    try:
        found = json.loads(text, object_pairs_hook=_each_once)
        text_of(found).encode()  # neither infinity nor half of a surrogate pair can be sent
    except (ValueError, RecursionError) as error:
        raise RemoteFault(f"{option} is not JSON ({error}): write an object, as in {EXAMPLE}.") from None
    if not isinstance(found, dict):
        raise RemoteFault(f"{option} is no JSON object: write one, as in {EXAMPLE}.")
    ours = next((name for name in found if name in OURS), None)
    if ours is not None:
        raise RemoteFault(
            f"{option}: {ours} is set by this program, for both lanes alike. Leave it out; what a person may choose "
            "of it has an option of its own."
        )
    return found


def text_of(settings: Settings) -> str:
    """As it is shown, and kept in a trace."""
    return json.dumps(settings, ensure_ascii=False, allow_nan=False)


def _each_once(pairs: list[tuple[str, Any]]) -> Settings:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found
