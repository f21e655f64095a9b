"""What can this machine do, which ways of decoding are on, and what would each preset need? `specdemo doctor`.

Ceilings and promises are measured; what presets need is counted off their configurations, and nothing is fetched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from specdemo.decoding.equal_shapes import EqualShapes
from specdemo.decoding.linear import halves, packs
from specdemo.decoding.promise import probe
from specdemo.environment import environment
from specdemo.exit_codes import REFUSED
from specdemo.models import embedded, smollm2
from specdemo.models.cache_folder import cache_root, verdict_on
from specdemo.models.ceilings import Ceilings, measure_ceilings
from specdemo.models.choice import candidates
from specdemo.models.errors import ModelUnavailable
from specdemo.models.loading import resolve_device
from specdemo.models.memory import (
    Need,
    Part,
    free_bytes,
    gigabytes,
    head_part,
    need,
    part_of,
    skeleton,
)
from specdemo.models.pair_options import MAX_GAMMA, USUAL_GAMMA, USUAL_TOKENS
from specdemo.models.precision import DTYPES, Precision, compute_dtype
from specdemo.models.presets import PRESETS, OpenModel, Preset
from specdemo.models.runners import make_runner

PIPED = 160  # columns, where the output is no terminal
SHOWN = ("device", "cpu", "cores", "instruction sets", "kernels", "memory", "python", "torch", "transformers")
ASKED = (Precision.BF16, Precision.INT8, Precision.INT4)  # what a preset is counted in
LENGTHS, GAMMAS = (512, 2048, 8192), (0, USUAL_GAMMA, MAX_GAMMA)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's options."""
    parser.add_argument("--preset", choices=PRESETS, metavar="NAME", help="one preset in full, its caches' growth too")
    parser.add_argument("--device", help="as torch names it (cuda where there is one, else cpu)")
    parser.add_argument("--tokens", type=int, default=USUAL_TOKENS, help="of prompt and answer together (%(default)s)")
    parser.add_argument("--gamma", type=int, default=USUAL_GAMMA, help="draft length (%(default)s)")


def main(args: argparse.Namespace) -> int:
    """Print it all; the exit code."""
    if args.tokens < 1 or not 0 <= args.gamma <= MAX_GAMMA:
        print(f"Ask for at least one token and a γ from 0 to {MAX_GAMMA}.", file=sys.stderr)
        return REFUSED
    try:
        device = resolve_device(args.device)
    except ModelUnavailable as error:
        print(error, file=sys.stderr)
        return REFUSED
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:  # whoever reads a pipe wants the table whole
        console = Console(highlight=False, markup=False, width=PIPED)
    show = Foreseen(device, args.tokens, args.gamma)
    if args.preset:
        for line in in_full(PRESETS[args.preset], show):
            console.print(line, soft_wrap=True)
        console.print(growth(PRESETS[args.preset], show))
        return 0
    for name, value in machine(device):
        console.print(f"{name:>17}  {value}", soft_wrap=True)
    console.print(table(show))
    console.print("One preset in full: specdemo doctor --preset NAME. Race it: specdemo run --preset NAME.")
    return 0


def machine(device: torch.device) -> Iterator[tuple[str, str]]:
    """The device, its ceilings, the paths that are on and what each promises, by name."""
    facts = environment(device)
    yield from ((name, facts[name]) for name in SHOWN)
    yield "bitsandbytes", facts["bitsandbytes"]
    yield "free memory", gigabytes(free_bytes(device))
    yield "embedded model", verdict_on(cache_root() / embedded.FOLDER)
    dtypes = (DTYPES[precision] for precision in candidates(device))
    for rows in dict.fromkeys(torch.float32 if halves(device, dtype) else dtype for dtype in dtypes):
        yield f"ceilings, {str(rows).removeprefix('torch.')}", _ceilings(measure_ceilings(device, rows))
    for precision in (Precision.FP32, Precision.BF16, Precision.FP16):
        yield f"forward, {precision}", path(device, precision)
    yield "CUDA graphs", "recorded when a pair loads" if device.type == "cuda" else "none on this device"
    for precision in candidates(device):
        yield f"promise, {precision}", f"{promise(device, precision)}; every pair is asked again"


def _ceilings(measured: Ceilings) -> str:
    read, flops = measured.bytes_per_second / 1e9, measured.flops_per_second / 1e9
    return f"copies move {read:,.1f} GB/s, products do {flops:,.0f} GFLOP/s (measured now)"


def path(device: torch.device, precision: Precision) -> str:
    """How the lean forward multiplies weights of this precision here."""
    dtype = DTYPES[precision]
    if packs(device, dtype):
        return "lean, weights packed by oneDNN"
    if halves(device, dtype):
        return "lean, rows and sums in fp32 (FBGEMM)"
    if device.type == "cpu" and precision is not Precision.FP32:
        return "lean, plain weights: this CPU emulates the products"
    return "lean, plain weights"


def promise(device: torch.device, precision: Precision) -> str:
    """What two lanes are promised: probed on two layers as wide as the embedded target's, with random weights."""
    shape = smollm2.SHAPE | {"num_hidden_layers": 2, "vocab_size": 4096}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**shape)).to(device, DTYPES[precision]).eval()
    runner = make_runner(model)
    padded = f", forwards of {runner.shapes[0]} rows and more padded to be alike" if runner.shapes else ""
    if runner.shapes:
        runner = EqualShapes(runner, runner.shapes)
    return f"{probe(runner)}{padded}"


class Foreseen:
    """What the presets' models take on one device in a race of so many tokens; each model's classes are built once."""

    def __init__(self, device: torch.device, tokens: int = USUAL_TOKENS, gamma: int = USUAL_GAMMA) -> None:
        self.device, self.tokens, self.gamma = device, tokens, gamma
        self._models: dict[str, PreTrainedModel] = {}

    def parameters(self, preset: Preset) -> tuple[int, int]:
        """Of target and draft."""
        draft = preset.draft
        if draft.head:
            return self._model(preset.target).num_parameters(), self._head(preset, torch.bfloat16).weights // 2
        return self._model(preset.target).num_parameters(), self._model(draft).num_parameters()

    def need(self, preset: Preset, precision: Precision, tokens: int | None = None, gamma: int | None = None) -> Need:
        """Target and draft in this precision; a head runs in its target's."""
        target = part_of(self._model(preset.target), precision, self.device)
        if preset.draft.head:
            draft = self._head(preset, compute_dtype(precision, self.device))
        else:
            draft = part_of(self._model(preset.draft), precision, self.device)
        return need(target, draft, self.device, tokens or self.tokens, self.gamma if gamma is None else gamma)

    def _head(self, preset: Preset, dtype: torch.dtype) -> Part:
        text = self._model(preset.target).config.get_text_config(decoder=True)
        return head_part(preset.draft.shape, text, dtype)

    def _model(self, one: OpenModel) -> PreTrainedModel:
        if one.repository not in self._models:
            self._models[one.repository] = skeleton(AutoConfig.for_model(**one.shape))
        return self._models[one.repository]


def table(show: Foreseen) -> Table:
    """Every preset: who, on which terms, what it needs in each precision, and whether that fits."""
    free = free_bytes(show.device)
    made = Table(title=f"Presets: {show.tokens:,} tokens, γ {show.gamma}, {gigabytes(free)} free on {show.device}")
    for name in ("preset", "card", "target + draft", "parameters", "licences", *ASKED, "fits here"):
        made.add_column(str(name), overflow="fold")
    for preset in PRESETS.values():
        needs = {precision: show.need(preset, precision).peak for precision in ASKED}
        fitting = next((str(precision) for precision, peak in needs.items() if peak <= free), "no")
        pair = (preset.target, preset.draft)
        made.add_row(
            preset.name,
            f"{preset.memory} GB",
            "\n".join(one.repository for one in pair),
            "\n".join(f"{n / 1e9:.2f} B" for n in show.parameters(preset)),
            "\n".join(f"{one.licence}{', gated' if one.gated else ''}" for one in pair),
            *(gigabytes(peak) for peak in needs.values()),
            fitting,
        )
    return made


def in_full(preset: Preset, show: Foreseen) -> Iterator[str]:
    """One preset, part by part."""
    for role, one, count in zip(
        ("target", "draft"), (preset.target, preset.draft), show.parameters(preset), strict=True
    ):
        kind = ", an EAGLE-3 head" if one.head else ""
        gated = ", gated: accept its terms on its page first" if one.gated else ""
        yield f"{role}: {one.repository}{kind}, {count:,} parameters, licence {one.licence}{gated}"
    free = free_bytes(show.device)
    for precision in ASKED:
        wanted = show.need(preset, precision)
        verdict = "fits" if wanted.peak <= free else "does not fit"
        yield f"{precision}: {gigabytes(wanted.peak)} ({wanted}): {verdict} into {gigabytes(free)}"


def growth(preset: Preset, show: Foreseen) -> Table:
    """How both caches grow with the length of a race and of its drafts, in bf16."""
    made = Table(title="Caches of both lanes and of the draft, bf16")
    for name in ("tokens", *(f"γ {gamma}" for gamma in GAMMAS)):
        made.add_column(name, justify="right")
    for tokens in LENGTHS:
        needs = [show.need(preset, Precision.BF16, tokens, gamma) for gamma in GAMMAS]
        made.add_row(f"{tokens:,}", *(gigabytes(one.caches + one.draft_cache) for one in needs))
    return made
