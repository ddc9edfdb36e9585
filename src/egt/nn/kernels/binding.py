"""The compiled kernel seen from Python: the structs of its headers (`csrc/*_pass.h`), and the loaded library."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch
from torch import Tensor

from egt.native import library as native
from egt.native.library import check_structs, declare

ACTIVATIONS = ("elu", "gelu", "relu", "silu")
"""In the order of their numbers (EgtActivation)."""

EDGE_VALUES = ("none", "sliced", "full")
"""What heads gather of edges, in the order of their numbers."""

PARAMETER_NAMES = (
    *("norm_weight", "norm_bias"),
    *("E_weight", "E_bias"),
    *("G_weight", "G_bias"),
    *("O_weight", "O_bias"),
    *("ffn_norm_weight", "ffn_norm_bias"),
    *("W1_weight", "W1_bias"),
    *("W2_weight", "W2_bias"),
)


class PairParameters(ctypes.Structure):
    """Pointers to the parameters of the pass, or to their gradients (EgtPairParameters)."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in PARAMETER_NAMES)


_INTEGERS = (
    *("num_graphs", "num_nodes", "num_pairs", "node_width", "edge_width", "num_heads", "hidden_width"),
    *("activation", "attends", "centrality", "num_virtual_nodes", "query_rows"),
    *("edge_values", "outer_sum", "masks_gates"),
    *("mask_threshold", "dropout_threshold", "edge_dropout_threshold", "ffn_dropout_threshold"),
    *("key_dropout_threshold", "edge_path_threshold", "ffn_path_threshold"),
    *("num_threads", "portable"),
)

_NUMBERS = (
    *("norm_eps", "ffn_norm_eps", "clip_low", "clip_high", "scale"),
    *("dropout_scale", "edge_dropout_scale", "ffn_dropout_scale"),
    *("key_dropout_scale", "edge_path_scale", "ffn_path_scale"),
)

_POINTERS = (
    *("sizes", "row_start", "target", "qkv", "e", "allowed"),
    *("mask_keys", "dropout_keys", "edge_dropout_keys", "ffn_dropout_keys"),
    *("key_dropout_keys", "edge_path_keys", "ffn_path_keys"),
    "run_parallel",
)


class PairPass(ctypes.Structure):
    """One call of the pass (EgtPairPass); csrc/pair_pass.h says what each field means."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _INTEGERS),
        *((name, ctypes.c_double) for name in _NUMBERS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        ("parameters", PairParameters),
    )


class NormLinear(ctypes.Structure):
    """One map of a norm (EgtNormLinear); csrc/node_pass.h says what each field means."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("num_rows", "width", "out_width", "num_threads", "portable")),
        ("eps", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("run_parallel", "x", "norm_weight", "norm_bias", "weight", "bias", "y")),
    )


class NormLinearGradients(ctypes.Structure):
    """Its gradients (EgtNormLinearGradients)."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("d_y", "d_x", "d_norm_weight", "d_norm_bias", "d_weight", "d_bias")
    )


_UPDATE_INTEGERS = ("num_rows", "width", "out_width", "hidden_width", "num_threads", "portable", "activation")

_UPDATE_POINTERS = (
    *("run_parallel", "h", "out", "O_weight", "O_bias", "norm_weight", "norm_bias"),
    *("W1_weight", "W1_bias", "W2_weight", "W2_bias", "D1", "D2", "h_new", "h1", "hidden"),
)


class NodeUpdate(ctypes.Structure):
    """One update of the nodes (EgtNodeUpdate)."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _UPDATE_INTEGERS),
        ("eps", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in _UPDATE_POINTERS),
    )


class NodeUpdateGradients(ctypes.Structure):
    """Its gradients (EgtNodeUpdateGradients)."""

    _fields_ = tuple(
        (f"d_{name}", ctypes.c_void_p)
        for name in (
            *("h_new", "h", "out", "O_weight", "O_bias", "norm_weight", "norm_bias"),
            *("W1_weight", "W1_bias", "W2_weight", "W2_bias"),
        )
    )


_FACTOR_INTEGERS = ("num_graphs", "num_rows", "width", "threshold", "salt0", "salt1", "num_threads", "portable")


class NodeFactors(ctypes.Structure):
    """The factors of one dropout of the nodes (EgtNodeFactors)."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _FACTOR_INTEGERS),
        ("factor", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("run_parallel", "sizes", "keys", "factors")),
    )


STRUCTS: tuple[type[ctypes.Structure], ...] = (
    *(PairParameters, PairPass, NormLinear, NormLinearGradients, NodeUpdate, NodeUpdateGradients, NodeFactors),
)


def pointer(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's data; None for no tensor."""
    return None if tensor is None else tensor.data_ptr()


def declared(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions of the kernel in a library, and return it.

    Raises:
        RuntimeError: its structs are not the ones of this file; a call would read wrong memory.
    """
    check_structs(library, *STRUCTS)
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
    declare(library, functions)
    return library


def checked(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the tensor, contiguous, if it is what the kernel expects; all else would be read as wrong memory."""
    if tensor.dtype != dtype or tensor.device.type != "cpu" or tuple(tensor.shape) != shape:
        given = f"{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
        raise ValueError(f"fused kernel: {name} is {given}; it must be {shape} {dtype} on cpu")
    return tensor.contiguous()


def loaded() -> ctypes.CDLL:
    """Return the kernel, for callers that asked `available()` before."""
    found = library()
    if found is None:
        raise RuntimeError("the fused kernel is not available here; ask available() first")
    return found


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the kernel, compiled if need be; None where it cannot be."""
    found = native.library()
    return None if found is None else declared(found)


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
