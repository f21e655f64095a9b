"""How the embedded draft was made, and how to make one for any target: synthesise a corpus, train on it, export."""
