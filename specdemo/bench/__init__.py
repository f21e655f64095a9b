"""The benchmark: this engine against `generate()`, against itself, and what it costs outside the models."""

from specdemo.bench.command import add_arguments, main

__all__ = ["add_arguments", "main"]
