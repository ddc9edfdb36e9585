"""Break each term of the maths in turn and see a named test fail: the breaks and the tests that catch them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from egt.data.batching.layout import Indices, Layout
from egt.nn import layer as layers
from egt.nn import terms
from egt.nn.channels import AttentionContext
from egt.nn.layer import CentralityGate, DegreeScaling, EdgeValues, Logits, PairPass, ResidualEdges
from egt.nn.randomness import Dropout, RandomMasking, Stream, derive, kept
from egt.nn.readout import VirtualNodeReadout
from egt.nn.triplet import TripletAggregation
from tests.nn import test_layer_against_reference as reference_test
from tests.nn import test_terms as terms_test
from tests.parity import test_pytorch as pytorch_test

Patch = pytest.MonkeyPatch
_logits, _gate, _masking = Logits.forward, CentralityGate.forward, RandomMasking.forward


def no_scaling(patch: Patch) -> None:
    def forward(self: Logits, *args: Any) -> Any:
        patch.setattr(self, "scale", 1.0)
        return _logits(self, *args)

    patch.setattr(Logits, "forward", forward)


def no_clip(patch: Patch) -> None:
    def forward(self: Logits, *args: Any) -> Any:
        patch.setattr(self, "clip", None)
        return _logits(self, *args)

    patch.setattr(Logits, "forward", forward)


def no_edge_norm(patch: Patch) -> None:
    def forward(self: Logits, Q: Tensor, K: Tensor, e: Tensor, layout: Layout) -> Any:
        H_hat, _ = _logits(self, Q, K, e, layout)
        return H_hat - self.E(self.norm_e(e)) + self.E(e), e

    patch.setattr(Logits, "forward", forward)


def no_bias_of_E(patch: Patch) -> None:
    def forward(self: Logits, *args: Any) -> Any:
        H_hat, e_hat = _logits(self, *args)
        return H_hat - self.E.bias, e_hat

    patch.setattr(Logits, "forward", forward)


def gates_of_masked_keys_counted(patch: Patch) -> None:
    def forward(self: CentralityGate, S: Tensor, e_hat: Tensor, counted: Tensor | None, layout: Layout) -> Any:
        return _gate(self, S, e_hat, None, layout)

    patch.setattr(CentralityGate, "forward", forward)


def virtual_nodes_scaled(patch: Patch) -> None:
    def forward(self: CentralityGate, S: Tensor, e_hat: Tensor, counted: Tensor | None, layout: Layout) -> Any:
        A_tilde, _ = _gate(self, S, e_hat, counted, layout)
        gates = torch.sigmoid(self.G(e_hat))
        return A_tilde, torch.log1p(layout.sum_keys(gates if counted is None else gates * counted))

    patch.setattr(CentralityGate, "forward", forward)


def masked_logits_into_the_edge_update(patch: Patch) -> None:
    plain = ResidualEdges.forward

    def forward(self: ResidualEdges, e: Tensor, H_hat: Tensor, context: AttentionContext, ends: None) -> Tensor:
        return plain(self, e, H_hat if context.allowed is None else H_hat.masked_fill(~context.allowed, -1e4), context)

    patch.setattr(ResidualEdges, "forward", forward)


def keys_not_masked(patch: Patch) -> None:
    patch.setattr(RandomMasking, "forward", lambda self, *args: (None, _masking(self, *args)[1]))


def gates_masked_where_only_logits_are(patch: Patch) -> None:
    def forward(self: RandomMasking, *args: Any) -> Any:
        attended, _ = _masking(self, *args)
        return attended, attended

    patch.setattr(RandomMasking, "forward", forward)


def gate_forgotten(patch: Patch) -> None:
    plain = PairPass.forward

    def forward(self: PairPass, *args: Any) -> Any:
        kept, self.gate = self.gate, _Open()  # type: ignore[assignment]
        try:
            return plain(self, *args)
        finally:
            self.gate = kept

    patch.setattr(PairPass, "forward", forward)


class _Open(nn.Module):
    def forward(self, S: Tensor, *args: Any) -> tuple[Tensor, Tensor]:
        return S, S.new_ones(())


def signs_of_u_and_v_drawn_apart(patch: Patch) -> None:
    plain = terms.SignedProjection.signs

    class Apart(Tensor):
        def repeat(self, *sizes: Any) -> Tensor:
            once = self.as_subclass(Tensor)
            return torch.cat([once, once.roll(1, 1)], 1)

    patch.setattr(terms.SignedProjection, "signs", lambda self, batch: plain(self, batch).as_subclass(Apart))


def virtual_edges_not_averaged(patch: Patch) -> None:
    plain = VirtualNodeReadout.virtual_edges

    def virtual_edges(self: VirtualNodeReadout) -> Tensor:
        table = plain(self)
        table[:-1, :-1] *= 2 - torch.eye(self.num_virtual).unsqueeze(-1)
        return table

    patch.setattr(VirtualNodeReadout, "virtual_edges", virtual_edges)


def own_keys_withheld(patch: Patch) -> None:
    plain = RandomMasking.forward

    def forward(self: RandomMasking, context: AttentionContext, *args: Any) -> Any:
        attended, counted = plain(self, context, *args)
        assert attended is not None
        assert counted is not None
        pair = context.layout.pair_indices
        keys = derive(context.keys, self.layer, Stream.KEY_DROPOUT)
        keep = kept(keys, Indices(pair.graph, pair.j, torch.zeros_like(pair.j)), 1, self.key_probability)
        return attended & keep, counted * keep

    patch.setattr(RandomMasking, "forward", forward)


def centrality_not_corrected_for_withheld_keys(patch: Patch) -> None:
    plain = RandomMasking.forward

    def forward(self: RandomMasking, *args: Any) -> Any:
        attended, counted = plain(self, *args)
        assert counted is not None
        return attended, (counted > 0).double()

    patch.setattr(RandomMasking, "forward", forward)


def kept_branches_not_scaled(patch: Patch) -> None:
    plain = Dropout.draw_paths

    def draw_paths(self: Dropout, *args: Any) -> Tensor:
        return (plain(self, *args) > 0).double()

    patch.setattr(Dropout, "draw_paths", draw_paths)


def degree_without_logarithm(patch: Patch) -> None:
    def forward(self: DegreeScaling, out: Tensor, context: AttentionContext) -> Tensor:
        return out * (self.t1 + self.t2 * context.degree)

    patch.setattr(DegreeScaling, "forward", forward)


def slices_of_other_heads(patch: Patch) -> None:
    plain = EdgeValues.read
    patch.setattr(EdgeValues, "read", lambda self, x: plain(self, x).roll(1, -2))


def edge_values_not_scaled(patch: Patch) -> None:
    plain = EdgeValues.forward

    def forward(self: EdgeValues, A_tilde: Tensor, e_hat: Tensor, layout: Layout) -> Tensor:
        return 0.5 * plain(self, A_tilde, e_hat, layout)

    patch.setattr(EdgeValues, "forward", forward)


def ends_of_an_edge_exchanged(patch: Patch) -> None:
    plain = layers.outer_sum
    patch.setattr(layers, "outer_sum", lambda ends, layout: plain(torch.cat(ends.chunk(2, -1)[::-1], -1), layout))


def triplets_read_without_norm(patch: Patch) -> None:
    def forward(self: TripletAggregation, e: Tensor, context: AttentionContext) -> Tensor:
        return e + self.O(context.layout.squarewise(self.gather_both, self.BGV(e), context.allowed))

    patch.setattr(TripletAggregation, "forward", forward)


def triplets_read_in_one_direction(patch: Patch) -> None:
    def gather_both(self: TripletAggregation, maps: Tensor, allowed: Tensor | None) -> Tensor:
        inward, outward = maps.chunk(2, -1)
        return torch.cat([self.gather(inward, allowed), self.gather(outward, allowed)], -1)

    patch.setattr(TripletAggregation, "gather_both", gather_both)


def triplets_ungated(patch: Patch) -> None:
    plain = TripletAggregation.gather

    def gather(self: TripletAggregation, maps: Tensor, allowed: Tensor | None) -> Tensor:
        b, _, v = maps.split([self.num_heads, self.num_heads, self.num_heads * self.value_width], -1)
        return plain(self, torch.cat([b, torch.full_like(b, 50.0), v], -1), allowed)

    patch.setattr(TripletAggregation, "gather", gather)


def triplets_outside_of_the_mask(patch: Patch) -> None:
    plain = TripletAggregation.gather
    patch.setattr(TripletAggregation, "gather", lambda self, maps, allowed: plain(self, maps, None))


BREAKS: dict[str, tuple[Callable[[Patch], None], Callable[[], None]]] = {
    "scaling": (no_scaling, lambda: reference_test.check("plain", "packed")),
    "clip": (no_clip, lambda: reference_test.check("plain", "packed")),
    "edge norm": (no_edge_norm, lambda: reference_test.check("plain", "packed")),
    "bias of E": (no_bias_of_E, lambda: reference_test.check("plain", "packed")),
    "gate": (gate_forgotten, lambda: reference_test.check("plain", "packed")),
    "gate mask": (gates_of_masked_keys_counted, lambda: reference_test.check("constrained centrality", "packed")),
    "virtual-node exemption": (
        virtual_nodes_scaled,
        lambda: reference_test.check("virtual nodes centrality", "packed"),
    ),
    "masked logits into the edge update": (
        masked_logits_into_the_edge_update,
        lambda: reference_test.check("constrained", "packed"),
    ),
    "key mask": (keys_not_masked, lambda: reference_test.check("constrained", "packed")),
    "random masking of gates": (
        gates_masked_where_only_logits_are,
        lambda: reference_test.check("masking of logits", "packed"),
    ),
    "own key": (own_keys_withheld, lambda: reference_test.check("key dropout", "packed")),
    "correction of centrality": (
        centrality_not_corrected_for_withheld_keys,
        lambda: reference_test.check("key dropout, centrality", "packed"),
    ),
    "scale of kept branches": (kept_branches_not_scaled, lambda: reference_test.check("drop-path", "packed")),
    "logarithm of degrees": (degree_without_logarithm, lambda: reference_test.check("degree scaling", "packed")),
    "slices of heads": (slices_of_other_heads, lambda: reference_test.check("sliced edge values", "packed")),
    "size of edge values": (edge_values_not_scaled, lambda: reference_test.check("full edge values", "packed")),
    "direction of the outer sum": (ends_of_an_edge_exchanged, lambda: reference_test.check("outer sum", "packed")),
    "norm of triplets": (triplets_read_without_norm, lambda: reference_test.check("triplets", "packed")),
    "directions of triplets": (triplets_read_in_one_direction, lambda: reference_test.check("triplets", "packed")),
    "gates of triplets": (triplets_ungated, lambda: reference_test.check("triplets", "packed")),
    "mask of triplets": (
        triplets_outside_of_the_mask,
        lambda: reference_test.check("triplets, constrained", "packed"),
    ),
    "padding of triplets": (triplets_outside_of_the_mask, lambda: reference_test.check("triplets", "padded")),
    "sign coupling of u and v": (signs_of_u_and_v_drawn_apart, terms_test.test_signs_flip_u_and_v_together),
    "averaged virtual edges": (
        virtual_edges_not_averaged,
        lambda: pytorch_test.test_output_with_correct_masking(pytorch_test.CASES[0], "plain", "packed"),
    ),
}


@pytest.mark.parametrize("term", BREAKS)
def test_a_broken_term_is_noticed(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    breaks, check = BREAKS[term]
    check()
    breaks(monkeypatch)
    with pytest.raises(AssertionError):
        check()
