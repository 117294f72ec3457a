"""Pages that were made a moment ago, to be given again while nothing has changed."""

import threading
from collections import OrderedDict

MOST_BYTES = 16_000_000
"""How much is kept; the page that was not asked for longest goes first."""


class Kept:
    """Pages by their ETag, which stands for everything that they depend on. Threads may share it.

    Example:
        >>> kept = Kept(most_bytes=5)
        >>> kept.put("one", b"abc")
        >>> kept.put("two", b"defg")
        >>> kept.get("one"), kept.get("two")
        (None, b'defg')
    """

    def __init__(self, *, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._size = most_bytes, 0
        self._pages: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, etag: str) -> bytes | None:
        """Return a page, None where it is not kept."""
        with self._lock:
            if etag in self._pages:
                self._pages.move_to_end(etag)
            return self._pages.get(etag)

    def put(self, etag: str, body: bytes) -> None:
        """Keep a page."""
        with self._lock:
            self._size += len(body) - len(self._pages.pop(etag, b""))
            self._pages[etag] = body
            while self._size > self._most:
                self._size -= len(self._pages.popitem(last=False)[1])
