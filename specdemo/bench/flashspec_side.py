"""FlashSpec's side of `bench --peers`, run by the Python of an environment of its own; it imports nothing of ours.

A line of JSON asks, and a line of JSON answers: first what to load, then prompts. FlashSpec is set to write greedily,
to draft γ tokens a round where that can be set, and to know no end of text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from time import perf_counter

import torch
from flashspec import BanditConfig, FlashSpecConfig, SamplingConfig, SpeculativeEngine
from flashspec.engine import HuggingFaceDrafter, NgramDrafter, TargetModel
from transformers import AutoModelForCausalLM


def serve(lines: Iterable[str], answer: Callable[[str], object]) -> None:
    """Answer every line."""
    asked = (json.loads(line) for line in lines)
    order = next(asked)
    torch.set_num_threads(order["threads"])
    engines = _engines(order)
    made: dict[str, SpeculativeEngine] = {}
    answer(json.dumps({name: version(name) for name in ("flashspec", "torch", "transformers")}))
    for one in asked:
        engine = made[one["way"]] = made.get(one["way"]) or engines[one["way"]]()
        answer(json.dumps(_written(engine, one["ids"], one["new_tokens"], order["device"])))


def _engines(order: dict) -> dict[str, Callable[[], SpeculativeEngine]]:
    """How each way to draft is set up, by name. Each has wrappers of its own over the same weights."""
    device, dtype = torch.device(order["device"]), getattr(torch, order["run_dtype"])

    def load(folder: str) -> torch.nn.Module:
        stored = getattr(torch, order["load_dtype"])
        return (
            AutoModelForCausalLM.from_pretrained(folder, dtype=stored, local_files_only=True).to(device, dtype).eval()
        )

    target, draft = load(order["target"]), load(order["draft"])

    def engine(drafters: list, **settings: object) -> SpeculativeEngine:
        sampling = SamplingConfig(temperature=0.0, gamma=order["gamma"])
        config = FlashSpecConfig(device=order["device"], sampling=sampling, **settings)
        return SpeculativeEngine(config, drafters, TargetModel("target", device, dtype, model=target))

    def model() -> HuggingFaceDrafter:
        return HuggingFaceDrafter("draft", device, dtype, temperature=0.0, model=draft)

    one_arm = {"drafter_strategy": "bandit", "bandit": BanditConfig(n_arms=1)}
    return {
        "lookup": lambda: engine([NgramDrafter()], **one_arm),
        "model": lambda: engine([model()], **one_arm),
        "default": lambda: engine([model()]),
    }


def _written(engine: SpeculativeEngine, ids: list[int], new_tokens: int, device: str) -> dict[str, object]:
    """What it wrote, and how long that took: the first round, which reads the prompt, apart from the others."""
    prompt = torch.tensor([ids], device=device)
    _settle(device)
    begun = perf_counter()
    result = engine.generate(prompt, max_new_tokens=new_tokens)
    _settle(device)
    whole = perf_counter() - begun
    first, *later = result.arm_steps
    return {
        "ids": result.output_ids[0, : result.n_tokens_generated].tolist(),
        "first": first.emitted,
        "seconds": sum(step.seconds for step in later),
        "whole_seconds": whole,
        "passes": len(later),
        "strategy": engine.drafter_strategy,
        "compiled": engine.compiled,
    }


def _settle(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    serve(sys.stdin, lambda text: print(text, file=out, flush=True))
