"""Who has signed in at the model hub? By Gradio's own sign-in on a Space; a program does it with its token.

What a session holds can be trusted on a Space, where the key that signs it is secret. Elsewhere Gradio plays the
sign-in with this machine's account under a key that anybody knows: a trial, for this machine alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from huggingface_hub import errors, get_token, whoami

from specdemo.models.errors import first_line
from specdemo.models.hub_token import FORM, HubToken
from specdemo.ui.text import Sentence

READS = {"gated-repos", "read-repos"}  # what a visitor may grant; either lets a token open what they have accepted
SPACE_GIVES = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class LoginRefused(Exception):
    """Nobody has signed in here, or nobody can; reason: a sentence of ui.text, or one for the terminal."""

    def __init__(self, reason: Sentence | str) -> None:
        super().__init__(reason if isinstance(reason, str) else reason[0])
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who has signed in. token: theirs, where they have granted that it opens gated models for them."""

    name: str
    token: str = field(default="", repr=False)


def account_of(visitor: Any) -> Account | None:
    """Of a gr.Request: who has signed in in this browser."""
    scope = getattr(getattr(visitor, "request", None), "scope", None) or {}
    info = (scope.get("session") or {}).get("oauth_info")
    if not info or info.get("expires_at", time.time()) < time.time():
        return None
    granted = READS & set(str(info.get("scope", "")).split())
    return Account(info["userinfo"]["preferred_username"], info["access_token"] if granted else "")


def account_behind(token: str) -> Account:
    """Whose token this is, by asking the hub. Raises LoginRefused."""
    if not FORM.fullmatch(token):
        raise LoginRefused(("refused.login.unknown", {}))
    try:
        return Account(whoami(token)["name"], token)
    except errors.HfHubHTTPError as error:
        nobodys = getattr(error.response, "status_code", None) in (401, 403)
        raise LoginRefused(("refused.login.unknown" if nobodys else "refused.login.hub", {})) from None
    except Exception:  # the HTTP library's own: no network. No trace of what was sent hangs on the sentence
        raise LoginRefused(("refused.login.hub", {})) from None


def check_login(host: str, space: Callable[[], str | None]) -> None:
    """Raise LoginRefused, with what to do, where a page on this address could sign nobody in.

    space: Gradio's own test for a Space, by which it chooses between the sign-in and the trial.
    """
    needed = ("itsdangerous", "authlib") if space() else ("itsdangerous",)
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise LoginRefused(f'To sign in takes the package {missing[0]}: pip install "gradio[oauth]".')
    if space():
        if any(name not in os.environ for name in SPACE_GIVES):
            raise LoginRefused(
                "This Space signs nobody in yet: write `hf_oauth: true` into the front matter of its README.md and "
                "push again, or leave --login out."
            )
        return
    if host not in LOOPBACK:
        raise LoginRefused(
            "Outside a Space the sign-in is a trial in which everybody is this machine's own account, so nobody else "
            "may be let in: leave --host out, or ask for a password with --auth-env in place of --login."
        )
    _check_own_account()


def _check_own_account() -> None:
    token = get_token()
    if token is None:
        raise LoginRefused(
            "Outside a Space the sign-in is a trial with this machine's own account of the model hub: log in with "
            "`hf auth login` or set HF_TOKEN, or leave --login out."
        )
    try:
        kind = whoami(token)["type"]
    except Exception as error:  # the client's own and its HTTP library's
        hidden = HubToken(token).hide(first_line(error)).rstrip(".") if FORM.fullmatch(token) else type(error).__name__
        raise LoginRefused(
            f"The trial of the sign-in needs the model hub, which does not say whose token this machine has ({hidden})"
            ". Connect to the network or log in again with `hf auth login`, or leave --login out."
        ) from None
    if kind != "user":
        raise LoginRefused(
            "The trial of the sign-in takes a person's account, and this machine's token is an organisation's: log in "
            "with `hf auth login`, or leave --login out."
        )
