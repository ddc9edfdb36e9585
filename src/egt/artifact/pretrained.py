"""Models that come with the package, found by their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "pretrained"
_CARD = "card.json"


def pretrained_names() -> list[str]:
    """Return the names of all models that come with the package."""
    return sorted(card.parent.name for card in FOLDER.glob(f"*/{_CARD}"))


def find_pretrained(name: str) -> Path | None:
    """Return the artifact of this name in the package; None if there is none."""
    return FOLDER / name if name in pretrained_names() else None


def pretrained_cards() -> dict[str, dict[str, Any]]:
    """Return the cards of all of them, by name: parameters, metrics, data, versions."""
    return {name: json.loads((FOLDER / name / _CARD).read_text(encoding="utf-8")) for name in pretrained_names()}
