"""Formulas over counters: `HO.ExeSucc / HO.ExeAtt`, `sum(pmThr[5:]) / sum(pmThr)`, `100 * (1 - 'my counter' / 7)`.

A small grammar with its own parser; nothing of a formula is ever run as code. Numbers, counters, + - * / and
parentheses, `sum`, `min` and `max`. A counter that holds several values is a vector: `X[3]` is one of them, from 0, and
sum(X), min(X[2:5]) go over them. A name with other characters than letters, digits, _ and dots, or one that begins with
a digit, stands in single quotes. What is missing makes the result missing, and so does a division by zero.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import NoReturn

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][\w.]*)|'(?P<quoted>[^']+)'|(?P<mark>[-+*/(),\[\]:]))"
)
_FOLDS: dict[str, Callable[[list[float]], float]] = {"sum": sum, "min": min, "max": max}
_LONGEST, _DEEPEST = 2000, 40
_NOTHING = ("", "nil", "null", "none", "nan", "-")


def number_of(text: str) -> float:
    """Return a number as files write it, nan where it is missing or none."""
    try:
        value = float(text)
    except ValueError:
        return nan
    return value if isfinite(value) and "_" not in text else nan


def is_missing(text: str | None) -> bool:
    """Return whether a value of a file says that there is none."""
    return text is None or text.strip().lower() in _NOTHING


# --- What a formula is made of --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a formula takes of a counter.

    Attributes:
        counter: Its name.
        first: The element of a vector, from 0, or the first of several; None for a counter of one value.
        last: Where several elements end; None for the end of the vector.
        fold: What is made of several elements: sum, min or max; "" for one value.
    """

    counter: str
    first: int | None = None
    last: int | None = None
    fold: str = ""

    def read(self, text: str | None) -> float:
        """Return the value in what a file has for the counter, nan where it is missing."""
        if text is None or is_missing(text):
            return nan
        items = text.split(",")
        if not self.fold and self.first is None and len(items) > 1:
            raise BadInputError(
                f"the counter {self.counter} holds {len(items)} values ({text.strip():.20})",
                hint=f"write {self.counter}[0] for the first of them, or sum({self.counter})",
            )
        if not self.fold:
            place = self.first or 0
            return number_of(items[place]) if place < len(items) else nan
        numbers = [number_of(item) for item in items[self.first : self.last]]
        return _FOLDS[self.fold](numbers) if numbers and all(map(isfinite, numbers)) else nan

    def __str__(self) -> str:
        name = self.counter if re.fullmatch(r"[A-Za-z_][\w.]*", self.counter) else f"'{self.counter}'"
        if not self.fold:
            return name if self.first is None else f"{name}[{self.first}]"
        several = self.first is not None or self.last is not None
        part = f"[{'' if self.first is None else self.first}:{'' if self.last is None else self.last}]"
        return f"{self.fold}({name}{part if several else ''})"


@dataclass(frozen=True, slots=True)
class Made:
    """A number, or an operation on formulas."""

    operation: str
    of: tuple["Formula", ...] = ()
    number: float = 0.0


Formula = Leaf | Made


def leaves_of(formula: Formula) -> Iterator[Leaf]:
    """Yield what a formula takes of counters."""
    if isinstance(formula, Leaf):
        yield formula
    else:
        for part in formula.of:
            yield from leaves_of(part)


def evaluate(formula: Formula, columns: Mapping[Leaf, FloatArray], size: int) -> FloatArray:
    """Return the values of a formula, (size,), nan where something is missing, from those of its leaves."""
    with np.errstate(all="ignore"):
        values = _evaluate(formula, columns, size)
    return np.where(np.isfinite(values), values, nan)


def _evaluate(formula: Formula, columns: Mapping[Leaf, FloatArray], size: int) -> FloatArray:
    if isinstance(formula, Leaf):
        return columns[formula]
    parts = [_evaluate(part, columns, size) for part in formula.of]
    match formula.operation:
        case "number":
            return np.full(size, formula.number)
        case "+" | "sum":
            return np.asarray(np.sum(parts, axis=0))
        case "-":
            return parts[0] - parts[1]
        case "*":
            return parts[0] * parts[1]
        case "/":
            return np.where(parts[1] == 0, nan, parts[0] / parts[1])
        case "min":
            return np.asarray(np.min(parts, axis=0))
    return np.asarray(np.max(parts, axis=0))


# --- The parser -----------------------------------------------------------------------------------------------------


def parse_formula(text: str, known: Mapping[str, Formula] | None = None) -> Formula:
    """Return the formula of a text; names of other formulas that are known stand for them.

    Example:
        >>> formula = parse_formula("HO.ExeSucc / HO.ExeAtt")
        >>> sorted(leaf.counter for leaf in leaves_of(formula))
        ['HO.ExeAtt', 'HO.ExeSucc']
        >>> parse_formula("HO.ExeSucc / ")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: the formula 'HO.ExeSucc / ' ends where a number, a counter or ( is expected
    """
    return _Parser(text, known or {}).whole()


class _Parser:
    """Goes through the words of a formula: sums of products of atoms."""

    def __init__(self, text: str, known: Mapping[str, Formula]) -> None:
        self.text, self.known = text, known
        self.words = list(self._words())
        self.place, self.depth = 0, 0

    def _words(self) -> Iterator[tuple[str, str]]:
        place, text = 0, self.text.rstrip()
        if len(text) > _LONGEST:
            raise BadInputError(f"a formula has at most {_LONGEST:,} characters, got {len(text):,}: name parts as kpis")
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                self.fail(f"has {text[place:].strip()[:12]!r}, which means nothing there: put names in single quotes")
            yield str(found.lastgroup), found[str(found.lastgroup)]
            place = found.end()

    def fail(self, what: str) -> NoReturn:
        raise BadInputError(f"the formula {self.text!r:.120} {what}")

    def peek(self) -> str:
        kind, word = self.words[self.place] if self.place < len(self.words) else ("end", "")
        return word if kind == "mark" else f"a {kind}" if kind != "end" else ""

    def take(self, *marks: str) -> str | None:
        if self.peek() in marks and self.peek():
            self.place += 1
            return self.words[self.place - 1][1]
        return None

    def expect(self, mark: str) -> None:
        if self.take(mark) is None:
            self.unexpected(mark)

    def unexpected(self, expected: str) -> NoReturn:
        if self.place >= len(self.words):
            self.fail(f"ends where {expected} is expected")
        self.fail(f"has {self.words[self.place][1]!r} where {expected} is expected")

    def whole(self) -> Formula:
        made = self.sum()
        if self.place < len(self.words):
            self.unexpected("+ - * / or the end")
        return made

    def sum(self) -> Formula:
        made = self.product()
        while mark := self.take("+", "-"):
            made = Made(mark, (made, self.product()))
        return made

    def product(self) -> Formula:
        made = self.atom()
        while mark := self.take("*", "/"):
            made = Made(mark, (made, self.atom()))
        return made

    def atom(self) -> Formula:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail("is nested too deeply: name parts of it as kpis")
        made = self._atom()
        self.depth -= 1
        return made

    def _atom(self) -> Formula:
        if self.take("-"):
            return Made("-", (Made("number"), self.atom()))
        if self.take("("):
            made = self.sum()
            self.expect(")")
            return made
        if self.peek() not in ("a number", "a name", "a quoted"):
            self.unexpected("a number, a counter or (")
        kind, word = self.words[self.place]
        self.place += 1
        if kind == "number":
            return Made("number", number=float(word))
        if kind == "name" and word in _FOLDS and self.take("("):
            return self.folded(word)
        if kind == "name" and word in self.known:
            return self.known[word]
        return self.element(word) if self.take("[") else Leaf(word)

    def element(self, counter: str) -> Leaf:
        place = self.index()
        if place is None:
            self.unexpected("the number of an element; several stand in sum(), min() or max()")
        self.expect("]")
        return Leaf(counter, place)

    def folded(self, fold: str) -> Formula:
        """What stands in sum(...): elements of a vector, or several formulas."""
        parts = [self.member(fold)]
        while self.take(","):
            parts.append(self.member(fold))
        self.expect(")")
        return parts[0] if len(parts) == 1 else Made(fold, tuple(parts))

    def member(self, fold: str) -> Formula:
        start = self.place
        if self.peek() in ("a name", "a quoted"):
            kind, word = self.words[self.place]
            self.place += 1
            if not (kind == "name" and (word in self.known or word in _FOLDS)):
                first, last = self.range() if self.take("[") else (None, None)
                if self.peek() in (",", ")"):
                    return (
                        Leaf(word, first) if first is not None and last == first + 1 else Leaf(word, first, last, fold)
                    )
        self.place = start
        return self.sum()

    def range(self) -> tuple[int | None, int | None]:
        first = self.index()
        if self.take(":") is None and first is not None:
            self.expect("]")
            return first, first + 1
        last = self.index()
        self.expect("]")
        return first, last

    def index(self) -> int | None:
        if self.peek() != "a number":
            return None
        word = self.words[self.place][1]
        if not word.isdigit():
            self.fail(f"has the element {word!r}: elements are numbered 0, 1, 2, ...")
        self.place += 1
        return int(word)
