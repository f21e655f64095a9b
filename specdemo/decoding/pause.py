"""When is a draft tried again that does not pay?"""

from __future__ import annotations


class Pause:
    """Plain rounds while drafts do not pay, between them now and then a few that draft, ever more seldom."""

    WAIT, LONGEST_WAIT = 8, 128  # plain rounds before a probe, twice as many before each next one
    PROBE = 2  # rounds of a probe: the first one may pay for what the drafter missed

    def __init__(self) -> None:
        self.end()

    def end(self) -> None:
        """Drafts pay."""
        self._wait, self._plain, self._probes = self.WAIT, 0, 0

    def probes(self) -> bool:
        """One more round in which none is expected to: whether it drafts all the same."""
        if not self._probes and self._plain >= self._wait:
            self._probes, self._plain = self.PROBE, 0
            self._wait = min(2 * self._wait, self.LONGEST_WAIT)
        if self._probes:
            self._probes -= 1
            return True
        self._plain += 1
        return False
