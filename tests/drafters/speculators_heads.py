"""Makes tests/data/heads: tiny random EAGLE-3 heads and what the `speculators` package's own forward says of them.

Run it where that package can be imported: `python tests/drafters/speculators_heads.py`. Each folder is a head as the
package saves it; expected/NAME.safetensors has the target's hidden states, the ids, and every unrolled step's logits.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

HEADS = Path(__file__).parents[1] / "data" / "heads"
ROWS, STEPS, VOCAB, DRAFT_VOCAB, WIDTH, AUX = 7, 3, 24, 16, 16, (2, 3, 4)
FLAGS = {
    "llama": {},
    "llama-norm_before_residual": {"norm_before_residual": True},
    "llama-norm_before_fc": {"norm_before_fc": True},
    "llama-fc_norm-norm_output": {"fc_norm": True, "norm_output": True},
    "llama-two_layers": {"num_hidden_layers": 2},
    "qwen3": {},
    "qwen3-norm_before_residual-norm_output": {"norm_before_residual": True, "norm_output": True},
    "qwen3-fc_norm": {"fc_norm": True},
}


def build(name: str):
    """A tiny random head of this name's architecture and flags."""
    from speculators import SpeculatorsConfig, VerifierConfig
    from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
    from speculators.proposals.greedy import GreedyTokenProposalConfig
    from transformers import LlamaConfig, Qwen3Config

    flags = dict(FLAGS[name])
    kind = LlamaConfig if name.startswith("llama") else Qwen3Config
    layer = kind(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=24,
        num_hidden_layers=flags.pop("num_hidden_layers", 1),
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        initializer_range=0.3,
        attn_implementation="eager",
    )
    config = Eagle3SpeculatorConfig(
        transformer_layer_config=layer,
        draft_vocab_size=DRAFT_VOCAB,
        eagle_aux_hidden_state_layer_ids=list(AUX),
        speculators_config=SpeculatorsConfig(
            algorithm="eagle3",
            proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=STEPS)],
            default_proposal_method="greedy",
            verifier=VerifierConfig(name_or_path=None, architectures=[]),
        ),
        **flags,
    )
    torch.manual_seed(len(name))
    model = Eagle3DraftModel(config).float().eval()
    with torch.no_grad():
        for parameter_name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in parameter_name else 0.0, 0.3)
        t2d = torch.zeros(VOCAB, dtype=torch.bool)
        t2d[torch.randperm(VOCAB)[:DRAFT_VOCAB]] = True
        model.load_vocab_mappings(t2d, t2d.nonzero()[:, 0] - torch.arange(DRAFT_VOCAB))
    return model


@torch.no_grad()
def expected(model) -> dict[str, torch.Tensor]:
    """Hidden states [rows, 3 * width], ids [rows + steps], logits [steps, rows, draft vocab] of the package."""
    hidden = torch.randn(ROWS + STEPS, len(AUX) * WIDTH)
    ids = torch.randint(VOCAB, (ROWS + STEPS,))
    logits: list[torch.Tensor] = []
    hook = model.lm_head.register_forward_hook(lambda module, args, out: logits.append(out[0, :ROWS].clone()))
    model(
        hidden_states=hidden[None],
        input_ids=ids[None],
        document_ids=torch.zeros(1, ROWS + STEPS, dtype=torch.long),
        ttt_steps=STEPS,
    )
    hook.remove()
    return {"hidden": hidden[:ROWS].clone(), "ids": ids, "logits": torch.stack(logits)}


def main() -> None:
    """Write every head and its expected logits."""
    for name in FLAGS:
        model = build(name)
        values = expected(model)
        model.save_pretrained(HEADS / name)
        (HEADS / name / "config.py").unlink()  # the package's code: not needed, and not ours to keep
        (HEADS / "expected").mkdir(exist_ok=True)
        save_file(values, HEADS / "expected" / f"{name}.safetensors")


if __name__ == "__main__":
    main()
