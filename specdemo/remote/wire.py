"""What does a server send? Every path, name and shape that is expected of vLLM's OpenAI server, and nowhere else.

Written from vLLM's documentation and source, and held against what vLLM 0.32 really sent (tests/data/vllm): there a
chunk was one engine step, also while the server had another request; a scrape right after the last chunk counted its
step; a refusal of a parameter came inside the stream. agreement.py takes none of it for granted: another version, or a
busy server, may gather steps, and vLLM calls `metrics.speculative_decoding` experimental.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError

MODELS, COMPLETIONS, TOKENIZE, DETOKENIZE = "/v1/models", "/v1/completions", "/tokenize", "/detokenize"
HEALTH, METRICS = "/health", "/metrics"
OPTIONAL = {"return_token_ids": True, "stream_options": {"include_usage": True}}  # asked for; a server may lack them
DROPPABLE = (*OPTIONAL, "seed")  # without them the distribution is the same
DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"  # label: position, from 0
FINISHED = "vllm:request_success_total"
VLLMS = "vllm:"  # how the names of its counters begin
MOST_DRAFTED = 256  # tokens in one step; more is no draft of any engine, and memory that a server could ask for
A_DAY = 24 * 3600 * 1000.0  # milliseconds

Shape = TypeVar("Shape", bound=BaseModel)
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
Draft = Annotated[int, Field(ge=0, le=MOST_DRAFTED)]
# JSON can hold half of a surrogate pair, which no file can be written with.
Text = Annotated[str, AfterValidator(lambda text: text.encode("utf-8", "replace").decode())]


class Garbage(ValueError):
    """Something that is no message of such a server."""


class Choice(BaseModel):
    """What a chunk adds. token_ids: None where the server gives none. stop_reason: the stop string that was met."""

    text: Text = ""
    token_ids: list[Count] | None = None
    prompt_token_ids: list[Count] | None = None
    finish_reason: Text | None = None
    stop_reason: int | Text | None = None


class Drafting(BaseModel):
    """One request's speculation, told by the server (--per-request-spec-decode-metrics).

    Steps that drafted nothing are not among them. The last two are there with "detailed" alone.
    """

    num_spec_steps: Count
    num_draft_tokens: Count
    num_accepted_draft_tokens: Count
    num_spec_tokens: Count
    acceptance_histogram: list[Count]  # steps that accepted 0, 1, 2, ... draft tokens
    per_step_accepted: list[Draft] | None = None
    per_step_drafted: list[Draft] | None = None


class Times(BaseModel):
    """One request's own times (--enable-per-request-metrics), without queue and network."""

    time_to_first_token_ms: float = Field(gt=0, le=A_DAY)
    generation_time_ms: float = Field(ge=0, le=A_DAY)


class Chunk(BaseModel):
    """One message of a stream; the last one, without choices, carries what the server tells of the request."""

    choices: list[Choice] = []
    metrics: Any = None

    @property
    def drafting(self) -> Drafting | None:
        """The request's speculation, where the server tells it in the shape known here."""
        return _fitting(Drafting, self.metrics.get("speculative_decoding")) if isinstance(self.metrics, dict) else None

    @property
    def times(self) -> Times | None:
        """The request's own times, where the server tells them."""
        return _fitting(Times, self.metrics) if isinstance(self.metrics, dict) else None


class Model(BaseModel):
    """A model that is served. root: the folder or hub id that it was loaded from."""

    id: Text
    root: Text | None = None
    max_model_len: Count | None = None


class Models(BaseModel):
    """The answer to MODELS."""

    data: list[Model]


class Tokenized(BaseModel):
    """The answer to TOKENIZE."""

    tokens: list[Count]
    max_model_len: Count | None = None


class Detokenized(BaseModel):
    """The answer to DETOKENIZE."""

    prompt: Text


def read(shape: type[Shape], message: object) -> Shape:
    """The message in this shape; raises Garbage."""
    try:
        return shape.model_validate(message)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Garbage(f"at {'.'.join(map(str, first['loc'])) or 'its top'}: {first['msg']}") from None


def _fitting(shape: type[Shape], message: object) -> Shape | None:
    try:
        return read(shape, message)
    except Garbage:
        return None
