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
from torch._compile import _disable_dynamo

Function = Callable[..., Any]


def operator(name: str) -> Callable[[Function], Any]:
    """A decorator: the operator `egt::name`, computed by the function on a CPU; its types are read from the hints.

    What it returns is called like the function; `torch.library.register_autograd` takes its full name.
    """
    full = f"egt::{name}"

    def register(function: Function) -> Any:
        torch.library.define(full, torch.library.infer_schema(function, mutates_args=()))
        torch.library.impl(full, "cpu", _untraced(function))
        return getattr(torch.ops.egt, name).default

    return register


def shapes(name: str) -> Callable[[Function], Function]:
    """A decorator: the function gives empty results of the right shapes for `egt::name`, which compilation needs."""

    def register(function: Function) -> Function:
        torch.library.register_fake(f"egt::{name}", function)
        return function

    return register


def _untraced(function: Function) -> Function:
    """Return the function, hidden from `torch.compile` where that is in use."""
    hidden = _disable_dynamo(function)

    @wraps(function)
    def run(*args: Any) -> Any:
        return hidden(*args) if "torch._dynamo" in sys.modules else function(*args)

    return run
