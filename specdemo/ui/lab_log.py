"""The log of runs on the page of whoever runs it: groups by kind and tag, means of the last runs, and what got worse.

On a page that is open to everybody it is the host's alone, who reads it with `specdemo log`.
"""

from __future__ import annotations

from typing import Any

from specdemo.log_view import HEAD, alerts_of, by_kind_and_tag, cells, group, read
from specdemo.ui.desk import Desk
from specdemo.ui.replay import ClosedDesk
from specdemo.ui.text import Sentence


def logged(desk: Desk | ClosedDesk) -> dict[str, Any]:
    """What the page's script draws, or the sentence that says why there is nothing."""
    log = desk.ledger.log if isinstance(desk, Desk) else None
    if desk.rules.public:
        return _nothing("lab.log.public")
    if log is None:
        return _nothing("lab.log.none")
    try:
        entries, _ = read(log.path)
    except FileNotFoundError:
        entries = []
    except OSError as error:
        return _nothing("lab.log.unread", name=log.path.name, why=error.strerror or str(error))
    if not entries:
        return _nothing("lab.log.empty")
    parted = by_kind_and_tag(entries)
    alerts = [str(alert) for name, of in parted.items() for alert in alerts_of(*name, of)]
    lines = cells([group(*name, of) for name, of in parted.items()])
    return {"say": ("lab.log.runs", {"n": f"{len(entries):,}"}), "head": HEAD, "lines": lines, "alerts": alerts}


def _nothing(key: str, **params: str) -> dict[str, Sentence]:
    return {"say": (key, params)}
