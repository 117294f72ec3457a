"""Names of stations in a picture: short enough to leave room for it, told apart, and drawn without complaint.

Names out of a network manager are long and alike in front: region, operator and site come before the sector. A label
keeps both ends of a name and leaves out its middle; where labels would be the same, what all names have in common goes
first, in front and behind.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unicodedata import east_asian_width

LONGEST = 24
"""Letters of a label; letters of East Asian scripts count as two."""

_CUT = "…"
_PLAIN = "DejaVu Sans"  # Matplotlib's own, there wherever it is
_OTHERS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Noto Sans JP", "WenQuanYi Zen Hei", "IPAGothic",
    "Microsoft YaHei", "MS Gothic", "Malgun Gothic", "PingFang SC", "Hiragino Sans", "Arial Unicode MS", "Noto Sans",
    "Noto Sans Arabic", "Noto Sans Devanagari", "Noto Sans Thai", "FreeSans")  # fmt: skip


def labels_of(names: Sequence[str], *, longest: int = LONGEST) -> list[str]:
    """Return a label for every name, different where names are.

    Example:
        >>> labels_of(["a", "operator-north-region-site-0001"])
        ['a', 'operator-nor…n-site-0001']
        >>> labels_of([f"operator-north-region-site-{n}-sector-1-carrier-a" for n in (7, 8)])
        ['…egion-site-7-sector-1-…', '…egion-site-8-sector-1-…']
    """
    shown = [_printable(name) for name in names]
    for labels in (
        [_cut(name, longest) for name in shown],
        [_cut(name, longest) for name in _without_common(shown, longest)],
    ):
        if len(set(labels)) == len(set(names)):
            return labels
    numbers = {name: f"{number + 1}{_CUT}" for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] + _cut(text, longest - len(numbers[name])) for name, text in zip(names, shown, strict=True)]


def width_of(text: str) -> int:
    """Return how many letters wide a text is.

    Example:
        >>> width_of("north"), width_of("北区")
        (5, 4)
    """
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


@contextmanager
def written(texts: Sequence[str]) -> Iterator[None]:
    """Draw texts with fonts that have their letters, as far as such are installed, and say nothing of those that lack.

    In an SVG text stays text, which the reader's own fonts write.

    Example:
        >>> with written(["north", "北区"]):
        ...     pass
    """
    import matplotlib as mpl

    family = _families(texts)
    settings: dict[Any, Any] = {} if family is None else {"font.family": family}
    with warnings.catch_warnings(), mpl.rc_context(settings):
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        yield


def _families(texts: Sequence[str]) -> list[str] | None:
    """Fonts to draw texts with, in the order of asking; None where Matplotlib's own has all letters."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

    letters = {ord(letter) for text in texts for letter in text}
    lacking = letters - get_font(findfont(FontProperties(family=[_PLAIN]))).get_charmap().keys()
    if not lacking:
        return None
    installed = set(fontManager.get_font_names())
    return [_PLAIN, *(name for name in _OTHERS if name in installed)]


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "·" for letter in name)


def _without_common(names: Sequence[str], longest: int) -> list[str]:
    """Names with little of what all of them begin and end with: as much as there is room for."""
    front = _common(names)
    rest = [name[len(front) :] for name in names]
    behind = _common([name[::-1] for name in rest])[::-1]
    own = [name[: len(name) - len(behind)] for name in rest]
    room = max(0, longest - 2 - max(map(width_of, own)))
    after = _start(behind, room // 2 if width_of(front) > room // 2 else room - width_of(front))
    before = _start(front[::-1], room - width_of(after))[::-1]
    start, end = _CUT * (before != front) + before, after + _CUT * (after != behind)
    return [f"{start}{name}{end}" for name in own]


def _common(names: Sequence[str]) -> str:
    """What all names begin with; the first and the last in order differ as early as any two."""
    low, high = min(names), max(names)
    apart = (place for place, letter in enumerate(low) if place >= len(high) or letter != high[place])
    return low[: next(apart, len(low))]


def _cut(name: str, longest: int) -> str:
    """A name with its middle left out where it is too long."""
    if width_of(name) <= longest:
        return name
    half = (longest - 1) // 2
    return _start(name, longest - 1 - half).rstrip() + _CUT + _start(name[::-1], half)[::-1].lstrip()


def _start(name: str, width: int) -> str:
    """The first letters of a name that are no wider than so many."""
    taken = ""
    for letter in name:
        if width_of(taken + letter) > width:
            break
        taken += letter
    return taken
