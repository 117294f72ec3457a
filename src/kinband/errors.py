"""The few exceptions kinband raises on purpose, and what each of them carries.

All share one base, so that a caller (the command line, the service) can turn any of them into one clear sentence. Each
also derives from the built-in exception that a Python programmer would expect. An error is data: programs look at its
class, its `code` and its `argument`; the sentence is for people and is never parsed. What to do about it, the `hint`,
may differ by whom it is told to: a face that has better advice than Python's chooses it by the code.
"""

from typing import Any


class KinbandError(Exception):
    """Base of every error that kinband raises on purpose.

    Args:
        problem: What was expected and what came, in a sentence without a full stop.
        hint: What to do about it, for somebody who writes Python; it follows the problem after a colon.
        code: Which error it is, for programs; that of the class where it is left out.
        argument: The argument, field or column at fault, by its name.
        value: What came instead of what was expected.

    Example:
        >>> error = BadInputError("beta must be above zero, got 0", hint="try 0.3", argument="beta", value=0)
        >>> str(error), error.code, error.argument
        ('beta must be above zero, got 0: try 0.3', 'bad_input', 'beta')
    """

    code: str = "error"

    def __init__(self, problem: str, *, hint: str = "", code: str = "", argument: str = "", value: Any = None) -> None:
        super().__init__(f"{problem}: {hint}" if hint else problem)
        self.problem, self.hint = problem, hint
        self.code = code or type(self).code
        self.argument, self.value = argument, value


class BadInputError(KinbandError, ValueError):
    """An argument, a file or a record is not what it should be; the message says what to do.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> ConfigurationSpace(tilt=[])
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: ...
    """

    code = "bad_input"


class NotFoundError(KinbandError, LookupError):
    """A station, a configuration or a decision of that name is not known here.

    Example:
        >>> from kinband import ConfigurationSpace
        >>> ConfigurationSpace(tilt=[2, 4]).index({"tilt": 3})
        Traceback (most recent call last):
            ...
        kinband.errors.NotFoundError: ...
    """

    code = "not_found"


class ConflictError(KinbandError):
    """The request contradicts what has already been recorded, such as a reward told twice.

    Example:
        >>> from kinband import ConfigurationSpace, Controller
        >>> controller = Controller(ConfigurationSpace(tilt=[2, 4]), ["a"])
        >>> controller.tell(controller.ask("a").id, 0.5)
        >>> controller.tell("d000001", 0.6)
        Traceback (most recent call last):
            ...
        kinband.errors.ConflictError: decision d000001 was already told the reward 0.5: use correct() to change it
    """

    code = "conflict"


class NotPositiveDefiniteError(KinbandError, ArithmeticError):
    """A kernel matrix lost positive definiteness; the message names the remedy.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import ExactPosterior
        >>> posterior = ExactPosterior(RBF(), [[1.0]], noise=1e-30)
        >>> posterior.update([0, 0], [[0.5], [0.5]], [0.1, 0.2])
        Traceback (most recent call last):
            ...
        kinband.errors.NotPositiveDefiniteError: the kernel matrix is no longer positive definite: ...
    """

    code = "not_positive_definite"


class CannotCorrectError(KinbandError):
    """A reward cannot be changed in place because its row was not kept; the log has to be learned anew.

    Example:
        >>> from kinband.kernels import RBF
        >>> from kinband.posterior import SparsePosterior
        >>> posterior = SparsePosterior(RBF(), [[1.0]], noise=0.1)
        >>> posterior.update([0], [[0.5]], [0.1])
        >>> posterior.correct(0, 0.2)
        Traceback (most recent call last):
            ...
        kinband.errors.CannotCorrectError: a sparse posterior keeps no rows: learn the corrected log again
    """

    code = "cannot_correct"


class SavedStateError(KinbandError):
    """A saved state is damaged, incomplete, or was written by a newer version.

    Example:
        >>> from kinband import Controller
        >>> Controller.load("no-such-folder")
        Traceback (most recent call last):
            ...
        kinband.errors.SavedStateError: no-such-folder holds no saved controller: manifest.json is missing
    """

    code = "saved_state"
