"""Downloads from the Hugging Face Hub that say in seconds when they cannot work.

The Hub's own libraries try again for 25 to 50 seconds where there is no network, and
wait without end for a server that takes the call and never answers. So each download of
the course asks the Hub one quick question first. Nothing else is ever put in its place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class HubUnavailable(OSError):
    """The Hub was asked for and could not help; its one sentence says the way out."""


def reachable(timeout: float = 3.0) -> bool:
    """Whether the Hub (or what HF_ENDPOINT names) answers within `timeout` seconds.

    An answer of 500 or more (out of service) counts as none.
    """
    from huggingface_hub import constants, get_session

    answers: list[int] = []

    def ask() -> None:
        try:
            reply = get_session().head(constants.ENDPOINT, timeout=timeout)
        except _connection_errors():
            return
        answers.append(reply.status_code)

    # In a thread of its own, because no timeout of the client covers the name look-up.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    return bool(answers) and answers[0] < 500


def fetch(what: str, function: Callable[[], Result], *, instead: str) -> Result:
    """Returns `function()`, which takes `what` from the Hub or from its cache.

    With HF_HUB_OFFLINE=1 nothing is asked and the cache has to hold it. `instead` names
    the call that needs no network.

    Raises:
        HubUnavailable: within about 3 seconds where the Hub does not answer; also where
            the Hub or the cache lacks `what`, or the cache cannot be written.
    """
    from huggingface_hub import constants

    offline = bool(constants.HF_HUB_OFFLINE)
    if not offline and not reachable():
        raise HubUnavailable(
            f"{what} cannot be downloaded because {constants.ENDPOINT} does not answer"
            f": use {instead}, which needs no network, or, if you downloaded it "
            "before, start again with HF_HUB_OFFLINE=1."
        )
    # Offline, datasets says with a ValueError that its cache lacks a configuration.
    expected = _connection_errors() + ((ValueError,) if offline else ())
    try:
        return function()
    except expected as error:
        raise HubUnavailable(_explain(what, error, instead, offline)) from error


def _explain(what: str, error: BaseException, instead: str, offline: bool) -> str:
    from huggingface_hub import constants

    disk = _disk_error(error)
    if disk is not None:
        return (
            f"{what} cannot be stored, as {disk.filename} cannot be written "
            f"({disk.strerror}): set HF_HOME to a folder of yours and start again, or "
            f"use {instead}."
        )
    if offline:
        return (
            f"{what} is not in the cache ({constants.HF_HOME}), and HF_HUB_OFFLINE=1 "
            f"forbids a download: start again without it, or use {instead}."
        )
    return (
        f"{what} could not be had from {constants.ENDPOINT} ({type(error).__name__}): "
        f"try again later, or use {instead}, which needs no network."
    )


def _disk_error(error: BaseException | None) -> OSError | None:
    """The failed access to a file behind `error`, if there is one."""
    while error is not None:
        if isinstance(error, OSError) and error.filename and error.strerror:
            return error
        error = error.__cause__ or error.__context__
    return None


def _connection_errors() -> tuple[type[Exception], ...]:
    """What a failed download raises: OSErrors, and those of the client below the Hub's.

    That client is requests, httpx or httpx2, by the version of huggingface_hub, whose
    own error is one of the client's.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, *HfHubHTTPError.__bases__)
