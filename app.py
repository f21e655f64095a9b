"""Builds the page and launches it: `python app.py` on a person's machine, and what a Space runs, unchanged."""

from __future__ import annotations

import argparse
import os

from specdemo.models.pair_options import add_pair_options, pair_spec


def main() -> None:
    """Parse the options, begin to load the pair, and serve the page, which stands before the models are ready."""
    parser = argparse.ArgumentParser(description="Plain and speculative decoding, raced side by side.")
    add_pair_options(parser)
    parser.add_argument("--host", help="address to listen on; 0.0.0.0 lets others in (127.0.0.1, on a Space 0.0.0.0)")
    parser.add_argument("--port", type=int, help="(the first free one from 7860)")
    args = parser.parse_args()
    print("Starting; the address of the page follows in some seconds.", flush=True)

    from specdemo.ui.desk import Desk  # gradio and torch take seconds: `--help` does not wait for them
    from specdemo.ui.engine import AS_TARGET
    from specdemo.ui.own_engine import real_engine
    from specdemo.ui.page import build_page, launch_options

    spec = pair_spec(args)
    desk = Desk(real_engine(), spec)
    desk.open()
    host = args.host or ("0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1")
    page = build_page(desk, spec.drafter, spec.draft_precision or AS_TARGET, spec.target_precision)
    page.launch(server_name=host, server_port=args.port, **launch_options())


if __name__ == "__main__":
    main()
