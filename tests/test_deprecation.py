"""Names of earlier versions that packages with parts of their own import."""

from __future__ import annotations

from importlib import import_module

import pytest

from egt.deprecation import MOVED


@pytest.mark.parametrize("old", MOVED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_modules_of_earlier_versions_can_be_imported(old: str) -> None:
    assert import_module(old).__name__ == old
    assert vars(import_module(MOVED[old]))
