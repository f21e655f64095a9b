"""The lab: experiments over the engine. What pays, when, and why, on the pair that is loaded."""
