"""Lookup and a model as one drafter: who proposes follows from what held so far, and neither falls out of step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from specdemo.bench.random_head import random_head
from specdemo.decoding.autoregressive import autoregressive
from specdemo.decoding.drafter import Draft, Drafter, Draw
from specdemo.decoding.ending import Ending, Limits
from specdemo.decoding.params import SamplingParams
from specdemo.decoding.speculative import speculative
from specdemo.decoding.steps import Rule, Step
from specdemo.drafters.combined import CombinedDrafter
from specdemo.drafters.model import ModelDrafter
from specdemo.drafters.ngram import NgramDrafter
from specdemo.models.general_runner import GeneralRunner
from specdemo.models.runners import make_runner
from tests.free_draw import FreeDraw
from tests.tables import CPU
from tests.threads import one_thread  # noqa: F401
from tests.tiny import noised, tiny_llama

MODEL = tiny_llama(vocab_size=24)  # few enough tokens that texts repeat themselves
PROMPT = [7, 7, 3, 9, 4, 7, 3, 9, 4, 7, 3, 9, 5, 1, 2]
TOKENS = 60


def small_model() -> Drafter:
    return ModelDrafter(GeneralRunner(noised(MODEL, 0.2)))


def head() -> Drafter:
    embedding = MODEL.get_input_embeddings().weight.detach()
    return random_head(MODEL.config, embedding, MODEL.config.vocab_size, 200)


MAKE = pytest.mark.parametrize("make", [small_model, head])


def lane(drafter: Drafter, prompt: list[int], params: SamplingParams, rule: Rule) -> list[Step]:
    ending = Ending(Limits(TOKENS, 500), len(prompt))
    return list(speculative(make_runner(MODEL), drafter, prompt, params, rule, 4, ending))


def ids_of(steps: list[Step]) -> list[int]:
    return [token.id for step in steps for token in step.tokens]


class Watched(CombinedDrafter):
    """Notes who proposed: (lookup or model, accepted)."""

    def begin(self, *args: object, **kwargs: object) -> None:
        super().begin(*args, **kwargs)
        self.rounds: list[tuple[str, int]] = []

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        self.rounds.append(("model" if self._drafted else "lookup", accepted))
        super().commit(tokens, accepted, hidden)


@MAKE
@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_text_is_the_baselines_wherever_that_is_promised(
    make: Callable[[], Drafter], rule: Rule, temperature: float
) -> None:
    params = SamplingParams(temperature=temperature, top_p=0.6, seed=2)
    drafter = Watched(NgramDrafter(CPU, shortest=1), make())
    steps = lane(drafter, PROMPT, params, rule)
    plain = list(autoregressive(make_runner(MODEL), PROMPT, params, Ending(Limits(TOKENS, 500), len(PROMPT))))
    assert {who for who, _ in drafter.rounds} == {"lookup", "model"}, "both proposed"
    if rule is Rule.SHARED_NOISE or temperature == 0:
        assert ids_of(steps) == ids_of(plain)


@MAKE
def test_after_mixed_rounds_the_model_stands_where_a_fresh_one_would(make: Callable[[], Drafter]) -> None:
    """Rounds of both kinds, some refused and some accepted; then what the model would draft next."""
    runner, seen = make_runner(MODEL), ids_of(lane(small_model(), PROMPT, SamplingParams(), Rule.REJECTION))
    text = [*PROMPT, *seen[:1]]
    both, fresh = CombinedDrafter(NgramDrafter(CPU), make()), make()
    aux = both.aux_layers
    begin(both, runner, text[:-1], text[-1])
    for lookup, accepted in ((True, 2), (False, 0), (True, 0), (True, 3), (False, 3), (False, 1), (True, 4)):
        following = seen[len(text) - len(PROMPT) :][: accepted + 1]
        both._copied, _ = both.lookup.look_up(4)
        if not lookup:
            both.model.propose(4, forced([*following[:accepted], 0, 0, 0, 0]))
            both._drafted = 4
        refused = [0] * (4 - accepted)
        out = runner.forward(torch.tensor([text[-1], *following[:accepted], *refused]), 1, aux)
        runner.rewind(runner.length - len(refused))
        both.commit(following, accepted, out.hidden)
        text += following
    begin(fresh, runner, text[:-1], text[-1])
    ours, other = next_logits(both.model), next_logits(fresh)
    torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-4)


def begin(drafter: Drafter, runner: GeneralRunner, prompt: list[int], first: int) -> None:
    runner.begin(500)
    out = runner.forward(torch.tensor(prompt), 1, drafter.aux_layers)
    drafter.begin(torch.tensor(prompt), first, out.hidden, 500)


def likeliest(logits: Tensor, drafted: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return logits.argmax(), logits.new_ones(())


greedy = FreeDraw(likeliest)


class Copying:
    """Lets so many tokens be copied."""

    def __init__(self, most: int) -> None:
        self.answers = iter([True] * most)

    def pays(self, alpha: float) -> bool:
        return next(self.answers, False)


def forced(ids: Sequence[int]) -> Draw:
    return FreeDraw(lambda logits, drafted: (torch.tensor(ids[len(drafted)]), logits.new_ones(())))


def next_logits(drafter: Drafter) -> Tensor:
    seen: list[Tensor] = []
    drafter.propose(3, FreeDraw(lambda logits, drafted: (seen.append(logits), greedy(logits, drafted))[1]))
    return torch.stack(seen)


# --- Who proposes ----------------------------------------------------------------------------------------------------


class Told:
    """A model that always proposes nines, and is told what was emitted."""

    aux_layers = (1,)
    max_length = 77

    def begin(self, prompt_ids: Tensor, first: int, hidden: Tensor | None, capacity: int, keep: int = 0) -> None:
        self.told = []

    def propose(self, gamma: int, draw: Draw) -> Draft:
        return Draft(torch.full((gamma,), 9), torch.ones(gamma))

    def commit(self, tokens: Sequence[int], accepted: int, hidden: Tensor | None) -> None:
        self.told.append((list(tokens), accepted, hidden))


def begun(text: list[int]) -> CombinedDrafter:
    drafter = CombinedDrafter(NgramDrafter(CPU), Told())
    drafter.begin(torch.tensor(text[:-1]), text[-1], None, 100)
    return drafter


def proposed(drafter: CombinedDrafter) -> list[int]:
    return drafter.propose(3, greedy).ids.tolist()


def test_it_asks_for_what_its_model_reads_and_holds_as_much() -> None:
    drafter = begun([1, 2])
    assert (drafter.aux_layers, drafter.max_length) == ((1,), 77)


def test_a_long_match_is_copied_with_a_one_hot_q_and_no_match_is_the_models() -> None:
    drafter = begun([1, 2, 3, 4, 5, 1, 2, 3, 4])
    draft = drafter.propose(3, greedy)
    assert draft.ids.tolist() == [5, 1, 2] and draft.q is None
    drafter = begun([1, 2, 3, 4, 5])
    draft = drafter.propose(3, greedy)
    assert draft.ids.tolist() == [9, 9, 9] and draft.q is not None


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_copy_is_as_long_as_it_pays(most: int) -> None:
    assert begun([1, 2, 3, 4, 5, 1, 2, 3, 4]).propose(3, Copying(most)).ids.tolist() == [5, 1, 2][:most]


def test_both_are_told_every_round_whoever_proposed() -> None:
    drafter = begun([1, 2, 3, 4, 5, 1, 2, 3, 4])
    hidden = torch.ones(4, 2)
    proposed(drafter)
    drafter.commit([5, 8], 1, hidden)
    assert drafter.model.told == [([5, 8], 1, hidden)]
    assert drafter.lookup._ids[-2:] == [5, 8]
    proposed(drafter)
    drafter.commit([7], 0, hidden)
    assert len(drafter.model.told) == 2 and drafter.lookup._ids[-1] == 7


def test_matches_that_did_not_hold_are_left_to_the_model_and_taken_up_again_once_they_do() -> None:
    drafter = begun([1, 2, 3, 1, 2])
    for _ in range(20):  # two tokens match again and again, and what followed never follows again
        drafter.propose(3, greedy)
        drafter.commit([6 + len(drafter.lookup._ids)], 0, None)
        drafter.commit([1, 2], 1, None)
    assert proposed(drafter) == [9, 9, 9]
    for _ in range(60):  # the model's never hold, and the copy, which is not proposed, would
        drafter.propose(3, greedy)
        drafter.commit(drafter._copied[:1], 0, None)
        drafter.commit([1, 2], 1, None)
    assert proposed(drafter) != [9, 9, 9]


def test_what_a_text_taught_is_forgotten_with_it() -> None:
    used = begun([1, 2, 3, 1, 2])
    for _ in range(20):
        used.propose(3, greedy)
        used.commit([6 + len(used.lookup._ids), 1, 2], 0, None)
    used.begin(torch.tensor([1, 2, 3, 1]), 2, None, 100)
    fresh = begun([1, 2, 3, 1, 2])
    assert proposed(used) == proposed(fresh) == [3, 1, 2]
    assert (used._of_matches, used._of_model) == (fresh._of_matches, fresh._of_model)


def test_a_round_of_the_model_judges_the_copy_no_further_than_it_was_emitted() -> None:
    drafter = begun([1, 2, 3, 4, 1, 2])
    before = drafter._of_matches[2].judged
    drafter.propose(3, greedy)
    drafter.commit([3, 4], 1, None)
    assert drafter._of_matches[2].judged == before + 2, "two held, and the third was never seen"
