"""An accelerator without hardware: tensors that are elsewhere, hold values, and know when the host waits for them.

Its tensors carry a CPU tensor inside and say that they are on the device "fake". Whatever mixes the two, or would be
refused by some real device, raises; whatever would make the host wait is noted, with the function of `egt` that did it.
All operations compute on the CPU, so a result must be the one that a CPU gives for the same layout and backend.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from types import FrameType
from typing import Any, Self

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _DummyPrivateUse1Hook,
    _setup_privateuseone_for_python_backend,
)

_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Of operations whose result, or its shape, depends on values: the host has to know them."""
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
_COPIES = ("aten::_to_copy", "aten::copy_")
_PINNING = ("aten::is_pinned", "aten::_pin_memory")


class _Module(_DummyBackendModule):
    """What torch and the package ask about the device. Nobody finds it by looking: tests name it (`found`)."""

    free = 10**9

    def is_available(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def mem_get_info(self, device: torch.device) -> tuple[int, int]:
        return self.free, 2 * self.free


_setup_privateuseone_for_python_backend("fake", backend_module=_Module(), hook=_DummyPrivateUse1Hook())
DEVICE = torch.device("fake", 0)

_OTHERS = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
_OTHERS.fallback(torch.library.fallthrough_kernel)
_PRODUCTS = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")
"""What autocast computes in half precision."""


def _halved(name: str) -> Callable[..., Any]:
    operation = getattr(torch.ops.aten, name).default

    def product(*args: Any) -> Any:
        dtype = torch.get_autocast_dtype(DEVICE.type)
        with torch.autocast(DEVICE.type, enabled=False):
            return operation(*(arg.to(dtype) if isinstance(arg, Tensor) else arg for arg in args))

    return product


for _name in ("linear", "bmm", "mm"):
    _PRODUCTS.impl(_name, _halved(_name))


class _There(Tensor):
    """A tensor on the device."""

    here: Tensor
    has_float64 = False
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls: type[Self], here: Tensor) -> Self:
        if here.dtype == torch.float64 and not cls.has_float64:
            raise TypeError("the device has no float64, as Apple silicon has none")
        there: Self = Tensor._make_wrapper_subclass(
            cls, here.shape, here.stride(), here.storage_offset(), dtype=here.dtype, device=DEVICE
        )
        there.here = here
        return there

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise RuntimeError(f"{func}: the device is switched off")


class Accelerator(TorchDispatchMode):
    """The device, as torch's dispatcher sees it; see `switched_on`.

    Attributes:
        waits: "FUNCTION: operation" for each time the host waited, where FUNCTION of `egt` asked for it.
        launches: how many operations ran on the device.
        moved: bytes that they read and wrote.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: list[str] = []
        self.launches = self.moved = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name, given = func._schema.name, [*_tensors(args), *_tensors(list(kwargs.values()))]
        if name in _PINNING:
            return _pin(name, args[0])
        there = [tensor for tensor in given if isinstance(tensor, _There)]
        target = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
        if not there and target != DEVICE.type:
            return func(*args, **kwargs)
        if name in _COPIES:
            self._note_copy(name, args, kwargs)
        else:
            _check_mixed(name, given, there)
            self._note_wait(func, args, kwargs)
        inner = {key: _mapped(_inner, value) for key, value in kwargs.items()}
        result = func(*_mapped(_inner, args), **inner | ({} if target is None else {"device": torch.device("cpu")}))
        if target == "cpu" or not isinstance(result, Tensor | list | tuple):
            return result
        if name == "aten::copy_" and not isinstance(args[0], _There):
            return args[0]
        if not _is_view(func):
            self.launches += 1
            self.moved += sum(tensor.nbytes for tensor in [*there, *_tensors(result)])
        return return_and_correct_aliasing(func, args, kwargs, _mapped(_outer, result))

    def _note_wait(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        name, waits = func._schema.name, _waits(func)
        if name in _INDEXING:
            waits = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
        elif name == "aten::repeat_interleave":
            waits = kwargs.get("output_size") is None
        if waits:
            self.waits.append(f"{_caller()}: {name.removeprefix('aten::')}")

    def _note_copy(self, name: str, args: Any, kwargs: dict[str, Any]) -> None:
        """Note a copy to the host, and one to the device that has to be finished before the host goes on."""
        to, source = (args[0].device, args[1]) if name == "aten::copy_" else (kwargs.get("device"), args[0])
        if to is None or torch.device(to).type == source.device.type:
            return
        if torch.device(to).type == "cpu":
            self.waits.append(f"{_caller()}: download")
        elif not kwargs.get("non_blocking", args[2:] == (True,)) or not _is_pinned(source):
            self.waits.append(f"{_caller()}: upload")


class _Literals(TorchFunctionMode):
    """`torch.tensor([...], device=...)`, which does not reach the dispatcher, as what it is: an upload."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


@contextmanager
def switched_on() -> Iterator[Accelerator]:
    """Switch the device on. Backward passes stay in this thread: torch started those of devices it knew of before."""
    with torch.autograd.set_multithreading_enabled(False), _Literals(), Accelerator() as accelerator:
        yield accelerator


def show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run find the accelerator."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("fake"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)


@contextmanager
def found(monkeypatch: pytest.MonkeyPatch, *, has_float64: bool = False) -> Iterator[Accelerator]:
    """Let a run find the accelerator, and switch it on. Its tensors have no inference mode: it is without gradients."""
    with monkeypatch.context() as patch:
        show(patch)
        patch.setattr(_There, "has_float64", has_float64)
        patch.setattr(torch, "inference_mode", lambda mode=True: torch.no_grad() if mode else nullcontext())
        with switched_on() as accelerator:
            yield accelerator


def on_cpu(tensor: Tensor) -> Tensor:
    """Return the values of a tensor, wherever it is."""
    here: Tensor = _inner(tensor)
    return here.detach()


def _check_mixed(name: str, given: list[Tensor], there: list[_There]) -> None:
    strangers = [tensor for tensor in given if not isinstance(tensor, _There) and tensor.ndim]
    if there and strangers:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in strangers)
        raise RuntimeError(f"{name}: expected all tensors on the device, and those of shape {shapes} are on the CPU")


def _pin(name: str, tensor: Tensor) -> Any:
    if name == "aten::is_pinned":
        return _is_pinned(tensor)
    pinned = tensor.clone()
    pinned.pinned_here = True  # type: ignore[attr-defined]
    return pinned


def _is_pinned(tensor: Tensor) -> bool:
    return getattr(tensor, "pinned_here", False)


@cache
def _waits(func: Any) -> bool:
    return bool(_WAITING & set(func.tags))


@cache
def _is_view(func: Any) -> bool:
    """Return whether an operation computes nothing: its result is another look at what it was given."""
    return any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns)


def _caller() -> str:
    """Return the innermost function of the package that is running."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("egt."):
        frame = frame.f_back
    return "torch" if frame is None else frame.f_code.co_name


def _inner(leaf: Any) -> Any:
    return leaf.here if isinstance(leaf, _There) else leaf


def _outer(leaf: Any) -> Any:
    return _There(leaf) if isinstance(leaf, Tensor) else leaf


def _mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to each leaf of nested lists and tuples."""
    if isinstance(tree, list | tuple):
        return type(tree)(_mapped(function, each) for each in tree)
    return function(tree)


def _tensors(tree: Any) -> list[Tensor]:
    """Return all tensors in nested lists and tuples."""
    if isinstance(tree, list | tuple):
        return [tensor for each in tree for tensor in _tensors(each)]
    return [tree] if isinstance(tree, Tensor) else []
