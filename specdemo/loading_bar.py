"""How is a pair's loading shown in a terminal? Downloads and conversions on stderr, as the loader tells them."""

from __future__ import annotations

import sys


class LoadingBar:
    """A bar on a terminal, else a line for each thing done; a models.progress.Progress."""

    def __init__(self) -> None:
        self._bar = None
        self._message = ""

    def __call__(self, fraction: float | None, message: str) -> None:
        from tqdm import tqdm

        if message != self._message:
            self._close()
            self._message = message
            if not sys.stderr.isatty():
                print(f"{message} ...", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            if self._bar is None:
                form = (
                    "{desc}: {percentage:3.0f} %|{bar}| {elapsed}" if fraction is not None else "{desc} ... {elapsed}"
                )
                self._bar = tqdm(total=1.0, desc=message, file=sys.stderr, leave=False, bar_format=form)
            self._bar.update((fraction or 0.0) - self._bar.n)
            self._bar.refresh()

    def __enter__(self) -> LoadingBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
