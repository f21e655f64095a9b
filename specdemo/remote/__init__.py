"""Lanes that run on somebody's vLLM servers, folded into the same Steps as local ones; no torch."""
