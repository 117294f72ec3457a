"""The few exceptions kinband raises on purpose.

All share one base, so that a caller (the command line, the service) can turn any of them into one clear
sentence. Each also derives from the built-in exception that a Python programmer would expect.
"""


class KinbandError(Exception):
    """Base of every error that kinband raises on purpose.

    Example:
        >>> issubclass(BadInputError, KinbandError) and issubclass(BadInputError, ValueError)
        True
    """


class BadInputError(KinbandError, ValueError):
    """An argument, a file or a record is not what it should be; the message says what to do."""


class NotFoundError(KinbandError, LookupError):
    """A station, a configuration or a decision of that name is not known here."""


class ConflictError(KinbandError):
    """The request contradicts what has already been recorded, such as a reward told twice."""


class NotPositiveDefiniteError(KinbandError, ArithmeticError):
    """A kernel matrix lost positive definiteness; the message names the remedy."""


class SavedStateError(KinbandError):
    """A saved state is damaged, incomplete, or was written by a newer version."""


class MissingExtraError(KinbandError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""
