"""The engine. Pure token id sequences and tensors: knows no text, no model names, no interface."""
