"""The compiled kernel seen from Python: the structs of its headers (`csrc/*_pass.h`), the library, and its memory."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import mmap
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from egt.native import library as native

ACTIVATIONS = ("elu", "gelu", "relu", "silu")  # in the order of their numbers (EgtActivation)
EDGE_VALUES = ("none", "sliced", "full")  # what heads gather of edges, in the order of their numbers
PARAMETER_NAMES = (
    *("norm_weight", "norm_bias"),
    *("E_weight", "E_bias"),
    *("G_weight", "G_bias"),
    *("O_weight", "O_bias"),
    *("ffn_norm_weight", "ffn_norm_bias"),
    *("W1_weight", "W1_bias"),
    *("W2_weight", "W2_bias"),
)


def _struct(
    name: str,
    integers: str = "",
    numbers: str = "",
    pointers: str = "",
    *others: tuple[str, type[ctypes.Structure]],
) -> type[ctypes.Structure]:
    """Return the mirror of the struct `Egt<name>`, whose fields are whole numbers, real ones, addresses, and others."""
    kinds = {ctypes.c_int64: integers, ctypes.c_double: numbers, ctypes.c_void_p: pointers}
    fields = [(field, kind) for kind, names in kinds.items() for field in names.split()]
    return type(name, (ctypes.Structure,), {"_fields_": (*fields, *others)})


# csrc/pair_pass.h and csrc/node_pass.h say what each field means.

PairParameters = _struct("PairParameters", pointers=" ".join(PARAMETER_NAMES))

PairPass = _struct(
    "PairPass",
    "num_graphs num_nodes num_pairs node_width edge_width num_heads hidden_width "
    "activation attends centrality num_virtual_nodes query_rows edge_values outer_sum masks_gates "
    "mask_threshold dropout_threshold edge_dropout_threshold ffn_dropout_threshold "
    "key_dropout_threshold edge_path_threshold ffn_path_threshold num_threads portable",
    "norm_eps ffn_norm_eps clip_low clip_high scale "
    "dropout_scale edge_dropout_scale ffn_dropout_scale key_dropout_scale edge_path_scale ffn_path_scale",
    "sizes row_start target qkv e allowed "
    "mask_keys dropout_keys edge_dropout_keys ffn_dropout_keys key_dropout_keys edge_path_keys ffn_path_keys "
    "run_parallel",
    ("parameters", PairParameters),
)

NormLinear = _struct(
    "NormLinear",
    "num_rows width out_width num_threads portable",
    "eps",
    "run_parallel x norm_weight norm_bias weight bias y",
)

NormLinearGradients = _struct("NormLinearGradients", pointers="d_y d_x d_norm_weight d_norm_bias d_weight d_bias")

NodeUpdate = _struct(
    "NodeUpdate",
    "num_rows width out_width hidden_width num_threads portable activation",
    "eps",
    "run_parallel h out O_weight O_bias norm_weight norm_bias W1_weight W1_bias W2_weight W2_bias "
    "D1 D2 h_new h1 hidden",
)

NodeUpdateGradients = _struct(
    "NodeUpdateGradients",
    pointers="d_h_new d_h d_out d_O_weight d_O_bias d_norm_weight d_norm_bias "
    "d_W1_weight d_W1_bias d_W2_weight d_W2_bias",
)

NodeFactors = _struct(
    "NodeFactors",
    "num_graphs num_rows width threshold salt0 salt1 num_threads portable",
    "factor",
    "run_parallel sizes keys factors",
)

STRUCTS: tuple[type[ctypes.Structure], ...] = (
    *(PairParameters, PairPass, NormLinear, NormLinearGradients, NodeUpdate, NodeUpdateGradients, NodeFactors),
)


def checked(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the tensor, contiguous, if it is what the kernel expects; all else would be read as wrong memory."""
    if tensor.dtype != dtype or not tensor.is_cpu or tensor.shape != shape:
        given = f"{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
        raise ValueError(f"fused kernel: {name} is {given}; it must be {shape} {dtype} on cpu")
    return tensor.contiguous()


def loaded() -> ctypes.CDLL:
    """Return the kernel, for callers that have called `available()`."""
    found = library()
    if found is None:
        raise RuntimeError("the fused kernel is not available here; call available() first")
    return found


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the kernel, compiled if need be; None if it cannot be. Structs of another version: a `RuntimeError`."""
    found = native.library()
    if found is None:
        return None
    native.check_structs(found, *STRUCTS)
    address = ctypes.c_void_p
    pair_pass, norm_linear, node_update = (ctypes.POINTER(struct) for struct in (PairPass, NormLinear, NodeUpdate))
    functions = {
        "egt_pair_pass_forward": (pair_pass, address, address),
        "egt_pair_pass_backward": (pair_pass, *[address] * 4, ctypes.POINTER(PairParameters)),
        "egt_norm_linear": (norm_linear,),
        "egt_norm_linear_backward": (norm_linear, ctypes.POINTER(NormLinearGradients)),
        "egt_node_update": (node_update,),
        "egt_node_update_backward": (node_update, ctypes.POINTER(NodeUpdateGradients)),
        "egt_node_factors": (ctypes.POINTER(NodeFactors),),
    }
    native.declare(found, functions)
    return found


@functools.cache
def openmp() -> ctypes.CDLL | None:
    """Find the OpenMP runtime that torch itself uses; None if torch was built without one that has GNU's functions."""
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        path = Path(torch.__file__).parent / "lib" / name
        if path.exists():
            runtime = ctypes.CDLL(str(path))  # already loaded: the search covers what it is linked with
            if hasattr(runtime, "GOMP_parallel"):
                return runtime
    return None


@functools.cache
def run_parallel() -> int | None:
    """Return the address of GOMP_parallel of torch's OpenMP runtime: its threads do our work too.

    A second runtime, or threads of our own, would compete with torch's workers, which spin for a while after each of
    its operations. None without such a runtime; the kernel then starts threads for each call.
    """
    runtime = openmp()
    return None if runtime is None else ctypes.cast(runtime.GOMP_parallel, ctypes.c_void_p).value


# Options of glibc's mallopt (malloc.h).
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4

_POOLED_BYTES = 1 << 20  # smaller buffers come from the heap as any other tensor
_ROOM = 1.25  # blocks are larger than their first buffer: the next may be, and untouched pages cost nothing


class Pool:
    """Blocks of memory that one big buffer after the other uses, apart from the heap.

    In a heap that is kept, small tensors settle in the holes that big ones leave, the next big ones no longer fit, and
    batches of changing size take up to twice the memory in use. Here there are never more blocks than buffers were
    alive at once: a buffer that fits into no free block replaces the largest of them.
    """

    def __init__(self) -> None:
        self._free: list[mmap.mmap] = []

    def empty(self, shape: Sequence[int]) -> Tensor:
        """Return an uninitialized float32 tensor; its block is free again when nothing refers to it any more."""
        count = math.prod(shape)
        fitting = [block for block in self._free if len(block) >= 4 * count]
        if fitting:
            block = min(fitting, key=len)
            self._free.remove(block)
        else:
            if self._free:
                self._free.remove(max(self._free, key=len))
            block = mmap.mmap(-1, round(_ROOM * 4 * count), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # advice: a system without huge pages goes on with small ones
                block.madvise(mmap.MADV_HUGEPAGE)
        array = np.frombuffer(block, np.float32, count)
        weakref.finalize(array, self._free.append, block).atexit = False
        return torch.from_numpy(array).view(*shape)


_pool: Pool | None = None


def keep_freed_memory() -> bool:
    """Make this process keep memory that tensors free, for the tensors after them; False without glibc.

    glibc gives every buffer above 32 MB (and at first above 128 kB) its own mapping and unmaps it when it is freed, so
    each operation on a large edge channel pays for zeroed pages again: up to 2.6 times the time of a training step. The
    price: memory once used stays with the process until it ends. Call it before the first large tensor.
    """
    global _pool
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return False
    _pool = _pool or Pool()
    return bool(libc.mallopt(_M_MMAP_MAX, 0) and libc.mallopt(_M_TRIM_THRESHOLD, -1))


def empty(shape: Sequence[int]) -> Tensor:
    """Return an uninitialized float32 CPU tensor, from the pool if freed memory is kept and the tensor is big."""
    if _pool is None or 4 * math.prod(shape) < _POOLED_BYTES:
        return torch.empty(*shape)
    return _pool.empty(shape)
