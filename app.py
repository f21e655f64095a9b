"""Builds the page and launches it: `python app.py` on a person's machine, and what a Space runs, unchanged."""

from __future__ import annotations

import argparse
import os


def main() -> None:
    """Parse the options, begin to load the pair, and serve the page, which stands before the models are ready."""
    parser = argparse.ArgumentParser(description="Plain and speculative decoding, raced side by side.")
    parser.add_argument("--target", default="embedded", metavar="PATH", help="a model's folder or hub id (%(default)s)")
    parser.add_argument(
        "--drafter", default="ngram", metavar="NAME", help="ngram, or a model's folder or hub id (ngram)"
    )
    parser.add_argument("--target-precision", choices=("auto", "fp32", "bf16", "fp16", "int8", "int4"), default="auto")
    parser.add_argument("--draft-precision", choices=("int8", "int4"), help="of a draft model (the target's)")
    parser.add_argument("--device", help="as torch names it (cuda where there is one, else cpu)")
    parser.add_argument("--host", help="address to listen on; 0.0.0.0 lets others in (127.0.0.1, on a Space 0.0.0.0)")
    parser.add_argument("--port", type=int, help="(the first free one from 7860)")
    parser.add_argument("--equal-shapes", action="store_true", help="equal numbers of rows, for the sake of equal bits")
    args = parser.parse_args()
    print("Starting; the address of the page follows in some seconds.", flush=True)

    from specdemo.models.pair import PairSpec  # torch takes seconds: `--help` does not wait for it
    from specdemo.ui.desk import Desk
    from specdemo.ui.engine import AS_TARGET
    from specdemo.ui.own_engine import real_engine
    from specdemo.ui.page import build_page, launch_options

    spec = PairSpec(
        args.target,
        args.drafter,
        args.draft_precision,
        args.target_precision,
        args.device,
        equal_shapes=args.equal_shapes,
    )
    desk = Desk(real_engine(), spec)
    desk.open()
    host = args.host or ("0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1")
    page = build_page(desk, args.drafter, args.draft_precision or AS_TARGET, args.target_precision)
    page.launch(server_name=host, server_port=args.port, **launch_options())


if __name__ == "__main__":
    main()
