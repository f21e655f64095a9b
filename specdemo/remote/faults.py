"""What can go wrong with a server? Each is a sentence. Imports nothing: the page knows them before it races."""

from __future__ import annotations


class RemoteFault(Exception):
    """A server that cannot be raced on, or no longer; the message is a sentence for a person, with the next step."""


class NotOffered(RemoteFault):
    """The server has no such path, or refuses what was asked there."""
