"""Tiny tensors run fastest on one thread."""

from tests.threads import one_thread  # noqa: F401  a fixture that every test here runs in
