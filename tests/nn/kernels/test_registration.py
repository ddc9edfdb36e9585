"""Operators do not load the compiler of torch: it takes seconds, and predictions do not compile."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import torch
from egt.nn.kernels.operators import operator
from torch import Tensor

@operator("doubled_for_a_test")
def doubled(x: Tensor) -> Tensor:
    return 2 * x

torch.library.register_autograd("egt::doubled_for_a_test", lambda ctx, grad: 2 * grad)
x = torch.ones(3, requires_grad=True)
doubled(x).sum().backward()
assert x.grad.tolist() == [2, 2, 2]
assert "torch._dynamo" not in sys.modules
compiled = torch.compile(lambda x: doubled(x) + 1, backend="eager", fullgraph=True)
torch.library.register_fake("egt::doubled_for_a_test", torch.empty_like)
assert compiled(torch.ones(2)).tolist() == [3, 3]
"""


def test_an_operator_has_gradients_and_compiles_without_the_compiler_being_loaded_before() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
