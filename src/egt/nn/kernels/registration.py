"""`operator`: a function on CPU tensors as an operator of torch that autograd and `torch.compile` know.

`torch.library.custom_op` does the same, but imports `torch._dynamo` (seconds) when an operator is first called, whether
anything is compiled or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch


def operator(name: str) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: the operator `egt::name`, computed by the function on a CPU; its types are read from the hints.

    What it returns is called like the function. `torch.library.register_fake` and `register_autograd` take its name.
    """
    full = f"egt::{name}"

    def register(function: Callable[..., Any]) -> Any:
        torch.library.define(full, torch.library.infer_schema(function, mutates_args=()))
        torch.library.impl(full, "cpu", _untraced(function))
        return getattr(torch.ops.egt, name).default

    return register


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, hidden from `torch.compile` where that is in use."""
    hidden = torch._disable_dynamo(function)

    @wraps(function)
    def run(*args: Any) -> Any:
        return hidden(*args) if "torch._dynamo" in sys.modules else function(*args)

    return run
