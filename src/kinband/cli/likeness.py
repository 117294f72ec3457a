"""The option that says how alike stations are, for commands that share experience between them."""

from pathlib import Path
from typing import Annotated

import typer

from kinband.similarity import NAMES, TaskMatrix, similarity_from

LikenessOption = Annotated[
    str | None,
    typer.Option(
        "--similarity",
        metavar="NAME|FILE",
        help=f"How alike stations are: {', '.join(NAMES)}, or a similarity.npz or .csv file; learned if not given.",
    ),
]


def likeness_of(similarity: str | None) -> str | TaskMatrix | None:
    """Return the name or the matrix of a file; an unknown name is refused before any work."""
    if similarity is None:
        return None
    if Path(similarity).suffix.lower() in (".npz", ".csv"):
        return TaskMatrix.load(similarity)
    similarity_from(similarity)
    return similarity
