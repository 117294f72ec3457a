"""The thread that orders what is due goes on, whatever fails, and says so once."""

import logging
import threading
from types import SimpleNamespace

import pytest

from kinband.errors import KinbandError
from kinband.service.api import app


@pytest.mark.parametrize("fault", [KinbandError("the ledger is away"), RuntimeError("a fault of ours")])
def test_what_is_due_is_tried_again_after_any_failure_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    ending, calls = threading.Event(), list[int]()

    def settle() -> None:
        calls.append(1)
        if len(calls) == 3:
            ending.set()
        else:
            raise fault

    monkeypatch.setattr(app, "_SETTLED_EVERY", 0.0)
    operations = SimpleNamespace(try_refresh=lambda: True, orders=SimpleNamespace(settle=settle))
    with caplog.at_level(logging.WARNING):
        app._settle(operations, ending)  # type: ignore[arg-type]
    assert len(calls) == 3
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["what is due could not be ordered"]
