"""With what does a command end when it did not do what was asked? 0 is that it did."""

REFUSED = 2  # it cannot be done, or what came of it could not be kept
INTERRUPTED = 130  # by Ctrl-C, as shells count it
