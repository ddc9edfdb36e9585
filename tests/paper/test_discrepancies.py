"""Every row of the list of disagreements between the paper and the authors' two codes, with what our presets take.

A row is (medium-scale value, large-scale value) as read from the presets; "by construction" rows name the test that
holds what no setting can change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from egt.config.run import RunConfig
from egt.paper.presets import names, preset
from egt.parts.schedules import WarmupCosine
from egt.parts.tasks.classification import Multiclass

MEDIUM, LARGE = "zinc-500k", "pcqm4mv2-small"
Read = Callable[[RunConfig], Any]


def term(kind: str, field: str) -> Read:
    def read(run: RunConfig) -> Any:
        found = [t for t in (*run.model.node_inputs, *run.model.pair_inputs) if t.kind == kind]
        return getattr(found[0], field) if found else None

    return read


def structural(run: RunConfig) -> str:
    return next(t.kind for t in run.model.pair_inputs if t.kind in {"distance", "reachability"})


ROWS: dict[str, tuple[Read, Any, Any]] = {
    "B1 virtual nodes attend padding": (lambda r: getattr(r.model.readout, "attend_padding", False), False, False),
    "B2 structural input": (structural, "reachability", "distance"),
    "B3 random masking reaches the gates": (
        lambda r: (r.model.masking.probability, r.model.masking.gates),
        (0.1, True),
        (0.0, False),
    ),
    "B4 norm of e0 in EGT-Simple": (lambda r: preset(r.name + "-simple").model.edges.normalize, False, True),
    "B6 constrained: no masking, no objective": (
        lambda r: (
            preset(r.name + "-constrained").model.masking.probability,
            preset(r.name + "-constrained").task.auxiliary,
        ),
        (0.0, ()),
        (0.0, ()),
    ),
    "B12 LayerNorm eps": (lambda r: r.model.norm_eps, 1e-3, 1e-5),
    "B13 Adam eps": (lambda r: r.optimizer.eps, 1e-7, 1e-7),
    "B14 initialization": (lambda r: r.model.initialization, "keras", "torch"),
    "B20 activation": (lambda r: r.model.activation, "elu", "elu"),
    "B21 FFN multipliers": (
        lambda r: (r.model.node_ffn_multiplier, r.model.edge_ffn_multiplier),
        (2.0, 2.0),
        (1.0, 1.0),
    ),
    "B22 non-edges": (term("edge_categories", "absent"), "learned", "zero"),
    "B24 distance objective (nu, kappa)": (
        lambda r: [(getattr(o, "max_hops", None), o.weight) for o in r.task.auxiliary],
        [(3, 0.05)],
        [],
    ),
    "B25 which weights are kept": (lambda r: r.trainer.select, "best", "last"),
    "B26 dropouts": (
        lambda r: (r.model.attention_dropout, r.model.node_dropout, r.model.edge_dropout),
        (0.0, 0.0, 0.0),
        (0.3, 0.0, 0.0),
    ),
    "B27 clip and scale": (lambda r: (r.model.clip, r.model.scale_dot), ((-5.0, 5.0), True), ((-5.0, 5.0), True)),
}

BY_CONSTRUCTION = {
    "B5 edge head of EGT-Simple": "tests/test_model.py::test_edges_of_simple_are_read_from_both_nodes_and_the_input",
    "B7 biases everywhere": "tests/test_model.py::test_parameter_counts_of_the_paper",
    "B8 last layer": "tests/test_model.py::test_the_last_layer_holds_only_what_is_read",
    "B9 neither node nor edge output": "not expressible: a readout always reads one of them",
    "B10 EGT-Simple with an edge update in the last layer": "not expressible: frozen edges are frozen in every layer",
    "B11 centrality sums over virtual keys": "tests/nn/test_layer_against_reference.py (virtual nodes centrality)",
    "B15 order of SVD columns": "tests/parity/test_pytorch.py (the converter permutes them)",
    "B16 signs per graph and pair": "tests/nn/test_terms.py::test_signs_flip_u_and_v_together",
    "B28 V applies to h_j": "tests/nn/test_layer_against_reference.py (plain)",
    "B29 virtual nodes come first": "tests/parity/test_pytorch.py::test_states_and_output_with_their_padding",
    "B30 framework": "one framework here",
    "B31 MNIST without encodings, 99.218": "a typo of the paper; not a target",
    "B32 the tuned -T models": "a way of training, not a model",
    "B33 accumulation under DDP": "a matter of training",
    "B34 cross-entropy of MolHIV from logits": "a matter of the task",
}


@pytest.mark.parametrize("row", ROWS)
def test_presets_take_the_decided_value(row: str) -> None:
    read, medium, large = ROWS[row]
    assert read(preset(MEDIUM)) == medium
    assert read(preset(LARGE)) == large


def test_specific_rows() -> None:
    cifar, released = preset("cifar10-100k").model, preset("cifar10-100k-released").model
    assert (cifar.node_width, cifar.edge_width) == (48, 48), "B17"
    assert (released.node_width, released.edge_width) == (64, 8), "B17"
    assert preset("tsp-500k").trainer.max_epochs == 200, "B18"
    schedule = preset("pcqm4mv2-larger").schedule
    assert isinstance(schedule, WarmupCosine)
    assert (schedule.warmup_steps, schedule.total_steps) == (200_000, 1_000_000), "B19"
    pattern, tsp = preset("pattern-500k").task, preset("tsp-500k").task
    assert isinstance(pattern, Multiclass)
    assert pattern.loss_weights == pytest.approx((0.1765, 0.8235), abs=5e-5), "B23"
    assert isinstance(tsp, Multiclass)
    assert tsp.loss_weights is None, "B23"


def test_every_row_is_decided() -> None:
    numbers = {int(row.split()[0][1:]) for row in (*ROWS, *BY_CONSTRUCTION)} | {17, 18, 19, 23}
    assert numbers == set(range(1, 35))


@pytest.mark.parametrize("name", names())
def test_all_presets_of_a_family_agree(name: str) -> None:
    run = preset(name)
    family = MEDIUM if run.model.num_heads == 8 else LARGE
    for row in (
        "B2 structural input",
        "B12 LayerNorm eps",
        "B13 Adam eps",
        "B14 initialization",
        "B21 FFN multipliers",
    ):
        assert ROWS[row][0](run) == ROWS[row][0](preset(family)), row
