"""How many bytes of tensors are alive at once while something is computed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts what operations inside of a `with` block allocate and free, whatever their code and layout.

    The outputs of the fused kernel are counted apart: they come from a pool (`egt.nn.kernels.allocator`), and what is
    free there is of no use to others.

    Args:
        known: tensors that are there anyway, as the parameters.

    Attributes:
        peak: the most bytes that were alive at once.
        heap_peak: the most, except outputs of the kernel.
        pool_peak: the most of outputs of the kernel.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Decline torch's wrapper around `__torch_dispatch__`: it loads the compiler, which takes seconds."""
        return False

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = self.heap_peak = self.pool_peak = 0
        self._heap = self._pool = 0
        self._alive = {tensor.untyped_storage()._cdata for tensor in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and watch the tensors that it returns."""
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self.watch(tensor, pooled=func.namespace == "egt")
        return result

    def watch(self, tensor: Tensor, *, pooled: bool = False) -> None:
        """Count a tensor until its memory is freed; a view of one that is counted adds nothing."""
        storage = tensor.untyped_storage()
        if storage._cdata in self._alive:
            return
        self._alive.add(storage._cdata)
        self._add(storage.nbytes(), pooled)
        weakref.finalize(storage, self._freed, storage._cdata, storage.nbytes(), pooled).atexit = False

    def _freed(self, address: int, size: int, pooled: bool) -> None:
        self._alive.discard(address)
        self._add(-size, pooled)

    def _add(self, size: int, pooled: bool) -> None:
        if pooled:
            self._pool += size
            self.pool_peak = max(self.pool_peak, self._pool)
        else:
            self._heap += size
            self.heap_peak = max(self.heap_peak, self._heap)
        self.peak = max(self.peak, self._heap + self._pool)
