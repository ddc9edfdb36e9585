"""An accelerator without hardware: tensors that are elsewhere, hold values, and know when the host waits for them.

Its tensors carry a CPU tensor inside and say that they are on the device "fake". Whatever mixes the two, or would be
refused by some real device, raises; whatever would make the host wait is noted, with the line of `egt` that did it.
All operations compute on the CPU, so a result must be the one that a CPU gives for the same layout and backend.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _DummyPrivateUse1Hook,
    _setup_privateuseone_for_python_backend,
)

_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
"""Operations whose result, or its shape, depends on values: the host has to know them."""
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")
_UPLOADS = ("aten::_to_copy", "aten::copy_")


class _Module(_DummyBackendModule):
    """What torch asks about the device. Nobody finds it by looking: only tests that name it use it."""

    def is_available(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]


_setup_privateuseone_for_python_backend("fake", backend_module=_Module(), hook=_DummyPrivateUse1Hook())
DEVICE = torch.device("fake", 0)


class _There(Tensor):
    """A tensor on the device."""

    here: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, here: Tensor) -> Self:
        if here.dtype == torch.float64:
            raise TypeError("the device has no float64 (as Apple silicon)")
        there: Self = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, here.shape, here.stride(), here.storage_offset(), dtype=here.dtype, device=DEVICE
        )
        there.here = here
        return there

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func}: the device is switched off")


class Accelerator(TorchDispatchMode):
    """The device, switched on inside of a `with` block.

    Attributes:
        waits: "FUNCTION: operation" for each time the host waited, where FUNCTION of `egt` asked for it.
        launches: how many operations ran on the device.
        moved: bytes that they read and wrote.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []
        self.launches = self.moved = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # In this thread: torch has started those of its devices long ago.
            stack.enter_context(torch.autograd.set_multithreading_enabled(False))
            stack.enter_context(_Literals())
            self._open = stack.pop_all()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._open.close()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        there = [tensor for tensor in given if isinstance(tensor, _There)]
        target = kwargs.get("device")
        name = func._schema.name
        if name in ("aten::is_pinned", "aten::_pin_memory"):
            return _pin(name, args[0])
        if not there and (target is None or torch.device(target).type != DEVICE.type):
            return func(*args, **kwargs)
        if name in _UPLOADS:
            self._note_copy(name, args, kwargs)
        else:
            _check_mixed(name, given, there)
            self._note_wait(func, args, kwargs)
        here_args, here_kwargs = tree_map(_inner, (args, kwargs))
        if target is not None:
            here_kwargs["device"] = torch.device("cpu")
        result = func(*here_args, **here_kwargs)
        if target is not None and torch.device(target).type == "cpu":
            return result
        if name == "aten::copy_" and not isinstance(args[0], _There):
            return args[0]
        if not _is_view(func):
            self.launches += 1
            self.moved += sum(tensor.numel() * tensor.element_size() for tensor in [*there, *_tensors(result)])
        wrapped = tree_map(_outer, result)
        return return_and_correct_aliasing(func, args, kwargs, wrapped)

    def _note_wait(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        name = func._schema.name
        waits = bool(_WAITING & set(func.tags))
        if name in _INDEXING:
            waits = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
        if name == "aten::repeat_interleave":
            waits = kwargs.get("output_size") is None
        if waits:
            self.waits.append(f"{_caller()}: {name.removeprefix('aten::')}")

    def _note_copy(self, name: str, args: Any, kwargs: dict[str, Any]) -> None:
        source = args[1] if name == "aten::copy_" else args[0]
        to_cpu = (
            not isinstance(args[0], _There) if name == "aten::copy_" else _is_cpu(kwargs.get("device", source.device))
        )
        from_cpu = not isinstance(source, _There)
        if from_cpu == to_cpu:
            return
        if to_cpu:
            self.waits.append(f"{_caller()}: download")
        else:
            blocking = not (kwargs.get("non_blocking") or (name == "aten::copy_" and len(args) > 2 and args[2]))
            if blocking or not getattr(source, "is_pinned_here", False):
                self.waits.append(f"{_caller()}: upload")


class _Literals(TorchFunctionMode):
    """`torch.tensor([...], device=...)`, which does not reach the dispatcher, as what it is: an upload."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


def _pin(name: str, tensor: Tensor) -> Any:
    if name == "aten::is_pinned":
        return getattr(tensor, "is_pinned_here", False)
    pinned = tensor.clone()
    pinned.is_pinned_here = True  # type: ignore[attr-defined]
    return pinned


def _check_mixed(name: str, given: list[Tensor], there: list[_There]) -> None:
    strangers = [tensor for tensor in given if not isinstance(tensor, _There) and tensor.ndim]
    if there and strangers:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in strangers)
        raise RuntimeError(f"{name}: expected all tensors on the device, and those of shape {shapes} are on the CPU")


def _is_view(func: Any) -> bool:
    """Return whether an operation computes nothing: its result is another look at what it was given."""
    return any(each.alias_info is not None and not each.alias_info.is_write for each in func._schema.returns)


def _is_cpu(device: Any) -> bool:
    return torch.device(device).type == "cpu"


def _inner(leaf: Any) -> Any:
    return leaf.here if isinstance(leaf, _There) else leaf


def _outer(leaf: Any) -> Any:
    return _There(leaf) if isinstance(leaf, Tensor) else leaf


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _caller() -> str:
    """Return the innermost function of the package that is running."""
    frames = traceback.extract_stack()
    own = [frame for frame in frames if "/egt/" in frame.filename.replace("\\", "/")]
    return own[-1].name if own else "torch"


def on_cpu(tensor: Tensor) -> Tensor:
    """Return the values of a tensor, wherever it is."""
    here: Tensor = _inner(tensor)
    return here.detach()


@contextmanager
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[Accelerator]:
    """Let a run find the accelerator, and switch it on."""
    with monkeypatch.context() as patch:
        patch.setattr(torch.accelerator, "is_available", lambda: True)
        patch.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("fake"))
        patch.setattr(torch.accelerator, "device_count", lambda: 1)
        with Accelerator() as accelerator:
            yield accelerator
