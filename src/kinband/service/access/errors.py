"""Who may not come in, and who may not do what: the two refusals of access.

*Not signed in* (HTTP's 401): the caller is nobody we know. *Not allowed* (403): the caller is known, but the role is
too low, or the request may have been sent by another site on the caller's behalf. What is said to the outside does not
tell whether a token was malformed, unknown or wrong in its secret; the reason is there for our own log. That a token
was revoked or has expired is said, since only who holds its secret comes as far as that.
"""

from typing import Literal

from kinband.errors import KinbandError

Reason = Literal["malformed", "unknown", "revoked", "expired", "session"]
"""Why somebody is not signed in, for our own log."""

_UNKNOWN = "this token is not known here: check that it is complete, or ask an administrator for a new one"
_SENTENCES: dict[Reason, str] = {
    "malformed": _UNKNOWN,
    "unknown": _UNKNOWN,
    "revoked": "this token was revoked: ask an administrator for a new one",
    "expired": "this token has expired: ask an administrator for a new one",
    "session": "this session is not valid or has ended: sign in again",
}


class AccessError(KinbandError, PermissionError):
    """Base of what access refuses.

    Example:
        >>> issubclass(NotSignedInError, AccessError) and issubclass(NotAllowedError, AccessError)
        True
    """


class NotSignedInError(AccessError):
    """The caller is nobody we know; a message says no more than an outsider may learn.

    Attributes:
        reason: Why, for our own log.

    Example:
        >>> str(NotSignedInError("malformed")) == str(NotSignedInError("unknown"))
        True
        >>> NotSignedInError("unknown").reason
        'unknown'
    """

    def __init__(self, reason: Reason) -> None:
        super().__init__(_SENTENCES[reason])
        self.reason: Reason = reason


class NotAllowedError(AccessError):
    """The caller is known, but may not do this.

    Example:
        >>> str(NotAllowedError("this needs the role admin"))
        'this needs the role admin'
    """
