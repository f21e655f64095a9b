"""Builds the page and launches it: `python app.py` on a person's machine, and what a Space runs, unchanged."""

from __future__ import annotations

import argparse
import os

from specdemo.models.pair_options import PairSpec, add_pair_options, pair_spec


def _races(spec: PairSpec) -> tuple[object, ...]:
    """The desk that loads this pair, and what Settings begin with."""
    from specdemo.ui.desk import Desk
    from specdemo.ui.engine import AS_TARGET
    from specdemo.ui.own_engine import real_engine  # imports torch

    desk = Desk(real_engine(), spec)
    desk.open()
    return desk, spec.drafter, spec.draft_precision or AS_TARGET, spec.target_precision, spec.target


def _replays() -> tuple[object, ...]:
    """The desk that has no model."""
    from specdemo.ui.replay import ClosedDesk

    return (ClosedDesk(),)


def main() -> None:
    """Parse the options, begin to load the pair, and serve the page, which stands before the models are ready."""
    parser = argparse.ArgumentParser(description="Plain and speculative decoding, raced side by side.")
    add_pair_options(parser)
    parser.add_argument("--host", help="address to listen on; 0.0.0.0 lets others in (127.0.0.1, on a Space 0.0.0.0)")
    parser.add_argument("--port", type=int, help="(the first free one from 7860)")
    parser.add_argument("--replay-only", action="store_true", help="no model: show the recorded runs of assets/runs")
    args = parser.parse_args()
    print("Starting; the address of the page follows in some seconds.", flush=True)

    from specdemo.ui.page import build_page, launch_options  # gradio takes seconds: `--help` does not wait for it

    host = args.host or ("0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1")
    page = build_page(*(_replays() if args.replay_only else _races(pair_spec(args))))
    page.launch(server_name=host, server_port=args.port, **launch_options())


if __name__ == "__main__":
    main()
