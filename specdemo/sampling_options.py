"""How is it said on the command line how both lanes sample? By the same options in every command that races."""

from __future__ import annotations

import argparse

from specdemo.decoding.params import SamplingParams


def add_sampling_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options, in a group of their own."""
    sampling = parser.add_argument_group("sampling, the same in both lanes")
    sampling.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (0)")
    sampling.add_argument("--top-k", type=int, default=0, help="0 is off (0)")
    sampling.add_argument("--top-p", type=float, default=1.0, help="1 is off (1)")
    sampling.add_argument("--min-p", type=float, default=0.0, help="0 is off (0)")
    sampling.add_argument("--repetition-penalty", type=float, default=1.0, help="1 is off (1)")
    sampling.add_argument("--seed", type=int, default=0, help="(0)")
    return sampling


def sampling_params(args: argparse.Namespace) -> SamplingParams:
    """What they ask for."""
    return SamplingParams(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        seed=args.seed,
    )
