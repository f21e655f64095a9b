"""Everything that knows transformers: presets, loading, precision, tokenizers and the general runner."""
