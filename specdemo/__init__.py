"""SpecDemo: one prompt, two lanes, one device: plain decoding beside speculative decoding, every figure defensible."""
