"""Numbers of things in a sentence: one station, two stations."""


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number of things, in the singular where it is one.

    Example:
        >>> counted(1, "station"), counted(1200, "station"), counted(0, "reply", "replies")
        ('1 station', '1,200 stations', '0 replies')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
