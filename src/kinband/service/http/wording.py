"""Sentences of the inner rooms for somebody who speaks HTTP.

Controller, guard and ledger complain to programs in Python: "use correct() to change it", "say it by running=". Here,
in one place, such advice is turned into requests and fields. What a controller was made with cannot be changed by a
request, so that advice to declare something else is turned into what a caller can do.
"""

import re

from kinband.guard.review import in_words
from kinband.space import ConfigurationSpace

_SENTENCES = (
    ("leave time= out, or declare one by drift=Drift(half_life=..., clock=...)", "leave time out"),
    ("say the time of a decision by time=", "send time"),
    ("say it when asking or declare it, by running=", "send running"),
    (": declare it in neighbours=", ": leave it out, neighbours are declared when a ledger is started"),
    (
        ": give it, or declare reward= to have it made of kpis",
        ": send it too, since the reward of this controller is not made of kpis",
    ),
    (
        "Conservative holds every station against a declared configuration",
        "the budget for trials holds every station against a declared configuration",
    ),
    ("declare it by running=", "send running"),
    ("say it by running, or declare it", "send running"),
    ("; allow an interval by Range(low, high)", "; allow an interval by {low, high}"),
    ("which have no Range: list the values", "which have no interval: list the values"),
    ("call ran() before telling", "report what runs by POST /v1/decisions/{id}/applied before telling"),
)
_REQUESTS = {
    "ask": "POST /v1/decisions",
    "ask_all": "POST /v1/decisions",
    "tell": "POST /v1/outcomes",
    "tell_all": "POST /v1/outcomes",
    "correct": "POST /v1/corrections",
    "applied": "POST /v1/decisions/{id}/applied",
    "ran": "POST /v1/decisions/{id}/applied",
    "call_off": "POST /v1/decisions/{id}/call-off",
    "add_station": "POST /v1/stations",
    "remove_station": "DELETE /v1/stations/{name}",
}
_CALL = re.compile(rf"\b({'|'.join(_REQUESTS)})\(\)|\b({'|'.join(name for name in _REQUESTS if '_' in name)})\b")
_FIELD = re.compile(r"\b([a-z_]+)=(?=[\s,;:.)]|$)")
_ARM = re.compile(r", configuration (\d+), is not among")


def named(sentence: str, space: ConfigurationSpace) -> str:
    """Return a sentence with knobs and values in place of the number of a configuration, which callers never see.

    Example:
        >>> space = ConfigurationSpace(tilt=[2, 4])
        >>> named("what 'a' falls back to, configuration 1, is not among those it may choose: allow it", space)
        "what 'a' falls back to, tilt 4, is not among those it may choose: allow it"
    """

    def knobs(found: re.Match[str]) -> str:
        arm = int(found[1])
        known = space[arm] if arm < len(space) else {"configuration": arm}
        return f", {in_words(known)}, is not among"

    return _ARM.sub(knobs, sentence)


def over_http(sentence: str) -> str:
    """Return a sentence that names requests and fields in place of Python's methods and arguments.

    Example:
        >>> over_http("decision d1 was already told the reward 0.9: use correct() to change it")
        'decision d1 was already told the reward 0.9: use POST /v1/corrections to change it'
        >>> over_http("'a' comes back as like the others as it was: add it without similarity=")
        "'a' comes back as like the others as it was: add it without similarity"
    """
    for spoken, written in _SENTENCES:
        sentence = sentence.replace(spoken, written)
    sentence = _CALL.sub(lambda found: _REQUESTS[found[1] or found[2]], sentence)
    return _FIELD.sub(r"\1", sentence)
