"""Types of options that several commands have."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

Flag = Annotated[bool, Parameter(negative="")]

Words = Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")]

Numbers = Annotated[tuple[int, ...], Parameter(consume_multiple=True, negative="")]

Settings = Annotated[tuple[str, ...], Parameter(name="--set", consume_multiple=True, negative="")]
