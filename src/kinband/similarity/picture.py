"""A matrix of similarities as a picture."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from os.path import commonprefix
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

import numpy as np

from kinband.arrays import FloatArray
from kinband.errors import BadInputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage


# --- Names of stations in a picture: short enough to leave room for it, told apart, and drawn without complaint -----
#
# Names out of a network manager are long and alike in front: region, operator and site come before the sector. A label
# keeps both ends of a name and leaves out its middle; where labels would be the same, what all names have in common
# goes first, in front and behind.

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
    shown = ["".join(letter if letter.isprintable() else "·" for letter in name) for name in names]
    for texts in (shown, _without_common(shown, longest)):
        labels = [_cut(text, longest) for text in texts]
        if len(set(labels)) == len(set(names)):
            return labels
    numbers = {name: f"{number + 1}{_CUT}" for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] + _cut(text, longest - len(numbers[name])) for name, text in zip(names, shown, strict=True)]


def width_of(text: str) -> int:
    """Return how many letters wide a text is; letters of East Asian scripts count as two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


@contextmanager
def written(texts: Sequence[str]) -> Iterator[None]:
    """Draw texts with fonts that have their letters, as far as such are installed, and say nothing of those that lack.

    In an SVG text stays text, which the reader's own fonts write.
    """
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

    letters, style = {ord(letter) for text in texts for letter in text}, dict[Any, Any]()
    if letters - get_font(findfont(FontProperties(family=[_PLAIN]))).get_charmap().keys():
        installed = set(fontManager.get_font_names())
        style["font.family"] = [_PLAIN, *(name for name in _OTHERS if name in installed)]
    with warnings.catch_warnings(), mpl.rc_context(style):
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        yield


def _without_common(names: Sequence[str], longest: int) -> list[str]:
    """Names with little of what all of them begin and end with: as much as there is room for."""
    front = commonprefix(names)  # noqa: RUF071 - letters are meant, not parts of paths
    rest = [name[len(front) :] for name in names]
    behind = commonprefix([name[::-1] for name in rest])[::-1]  # noqa: RUF071
    own = [name[: len(name) - len(behind)] for name in rest]
    room = max(0, longest - 2 - max(map(width_of, own)))
    after = _start(behind, room // 2 if width_of(front) > room // 2 else room - width_of(front))
    before = _start(front[::-1], room - width_of(after))[::-1]
    start, end = _CUT * (before != front) + before, after + _CUT * (after != behind)
    return [f"{start}{name}{end}" for name in own]


def _cut(name: str, longest: int) -> str:
    """A name with its middle left out where it is too long."""
    if width_of(name) <= longest:
        return name
    half = (longest - 1) // 2
    return _start(name, longest - 1 - half).rstrip() + _CUT + _start(name[::-1], half)[::-1].lstrip()


def _start(name: str, width: int) -> str:
    """The first letters of a name that are no wider than so many."""
    return next((name[:end] for end in range(len(name), 0, -1) if width_of(name[:end]) <= width), "")


# --- The heat map of a task matrix ----------------------------------------------------------------------------------
#
# Drawn with Matplotlib's figure objects alone, without `pyplot`: no window, no global state, no choice of backend
# forced on the caller. Matplotlib is imported when a picture is drawn, not before.

MOST_NAMES = 40
"""With more stations than this, names along the axes could not be read and are left out."""
MOST_NUMBERS = 12
"""With at most so many stations the cells carry their numbers."""
INK, FAINT = "#222222", "#666666"
UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""File endings, and what keeps the time of drawing out of the file."""


def draw_heatmap(path: str | PathLike[str], matrix: FloatArray, *, stations: Sequence[str], title: str) -> None:
    """Draw `matrix` (M, M) in the order given into a `.png`, `.svg` or `.pdf` file; long names are cut to labels.

    Colours run from 0 to 1 in one perceptually uniform ramp, or from −1 through white to 1 when an entry is
    negative.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in UNDATED:
        raise BadInputError(
            f"a heat map is a .png, .svg or .pdf file, got {Path(path).name!r}", argument="path", value=str(path)
        )
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = labels_of(stations)
    with written([*names, title]), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kinband"}):  # text is text
        figure = Figure(figsize=_size(names), dpi=160, layout="constrained", facecolor="white")
        axes = figure.subplots()
        draw_matrix(axes, matrix, stations=stations)
        axes.set_title(title, loc="left", fontsize=12, color=INK, pad=10, parse_math=False)
        figure.savefig(path, format=suffix[1:], metadata=UNDATED[suffix], bbox_inches="tight", pad_inches=0.15)


def draw_matrix(axes: "Axes", matrix: FloatArray, *, stations: Sequence[str]) -> None:
    """Draw `matrix` (M, M) in the order given into axes, with a colour bar beside them."""
    names = labels_of(stations)
    image = _cells(axes, matrix)
    if len(matrix) <= MOST_NUMBERS:
        _numbers(axes, image, matrix=matrix)
    _label_axes(axes, names)
    _colour_bar(axes, image, unit=bool(np.allclose(np.diag(matrix), 1.0)))


def _size(names: Sequence[str]) -> tuple[float, float]:
    """Inches of the figure: cells of a readable size, and room for names and the colour bar."""
    M, letters = len(names), 0.075 * max(map(width_of, names))
    if M > MOST_NAMES:
        return 7.6, 6.6
    side = max(3.0, M * (0.55 if M <= MOST_NUMBERS else 0.2))
    return side + letters + 1.2, side + (letters if _upright(names) else 0.2) + 0.5


def _upright(names: Sequence[str]) -> bool:
    """Whether names under the cells must stand on end to fit."""
    return max(map(width_of, names)) > (6 if len(names) <= MOST_NUMBERS else 2)


def _cells(axes: "Axes", matrix: FloatArray) -> "AxesImage":
    top = max(1.0, float(matrix.max()))
    signed = bool(matrix.min() < 0)
    image = axes.imshow(
        matrix, cmap="RdBu_r" if signed else "viridis", vmin=-top if signed else 0.0, vmax=top, interpolation="nearest"
    )
    axes.spines[:].set_visible(False)
    if len(matrix) <= MOST_NAMES:  # thin white joints keep neighbouring cells apart
        axes.set_xticks(np.arange(1, len(matrix)) - 0.5, minor=True)
        axes.set_yticks(np.arange(1, len(matrix)) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1.5 if len(matrix) <= MOST_NUMBERS else 0.6)
    axes.tick_params(which="both", length=0)
    return image


def _numbers(axes: "Axes", image: "AxesImage", *, matrix: FloatArray) -> None:
    for (i, j), value in np.ndenumerate(matrix):
        red, green, blue, _ = image.to_rgba(np.array([value]))[0]
        bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
        text = f"{value:.2f}".replace("-", "−")
        axes.text(j, i, text, ha="center", va="center", fontsize=8.5, color=INK if bright else "white")


def _label_axes(axes: "Axes", names: Sequence[str]) -> None:
    M = len(names)
    if M > MOST_NAMES:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(f"{M} stations, ordered by similarity", fontsize=10, color=FAINT, labelpad=8)
        return
    size = 9.0 if M <= MOST_NUMBERS else 7.5
    rotation = 90 if _upright(names) else 0
    axes.set_yticks(range(M), names, fontsize=size, color=INK, parse_math=False)
    axes.set_xticks(range(M), names, fontsize=size, color=INK, parse_math=False, rotation=rotation)


def _colour_bar(axes: "Axes", image: "AxesImage", *, unit: bool) -> None:
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.72, aspect=24, pad=0.03)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8.5, labelcolor=FAINT)
    label = "similarity (1 = same reward function)" if unit else "covariance of reward functions"
    bar.set_label(label, fontsize=9, color=FAINT, labelpad=8)
