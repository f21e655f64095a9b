"""The benchmark: this engine against transformers' `generate()`, against itself, and what it costs beside the models."""

from specdemo.bench.main import add_arguments, main

__all__ = ["add_arguments", "main"]
