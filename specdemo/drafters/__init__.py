"""Cheap proposers of tokens, one file each."""
