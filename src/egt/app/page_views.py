"""Attention and explanations as the page is told them."""

from __future__ import annotations

from egt.analysis.explanation import Explanation
from egt.analysis.explanation_page import TITLES
from egt.analysis.faithfulness import Faithfulness
from egt.analysis.hops import HopProfile, pair_hops
from egt.app.opened_rows import Json
from egt.inference.attention_capture import Attention


def attention_view(found: Attention) -> Json:
    """Return what there is to see of a graph, and the hop profile of all layers and heads, (L, H, hops)."""
    profile = HopProfile.empty(*found.product.shape[:2])
    profile.add(found, pair_hops(found))
    codes = profile.codes
    return {
        "layers": [layer + 1 for layer in found.layers],
        "heads": found.product.shape[1],
        "virtual": found.num_virtual,
        "hops": profile.columns(found.layers[:1])["hop"],
        "product": profile.mean(profile.product)[..., codes].round(5).tolist(),
        "softmax": profile.mean(profile.softmax)[..., codes].round(5).tolist(),
        "even": profile.mean(profile.even)[codes].round(5).tolist(),
    }


def explanation_view(found: Explanation) -> Json:
    """Return an explanation: what each method says about nodes and edges, and whether to believe it."""
    said = {"target": found.target, "value": found.value, "probability": found.probability}
    methods = [_method(found, name) for name in found.importance]
    return {**said, "without": found.without, "verdict": found.verdict, "believed": found.believed, "methods": methods}


def _method(found: Explanation, name: str) -> Json:
    edges = zip(found.edges.T.tolist(), found.of_edges[name].tolist(), strict=True)
    return {
        "name": name,
        "title": TITLES[name],
        "nodes": found.importance[name].nodes.tolist(),
        "edges": [[i, j, value] for (i, j), value in edges],
        "scores": [
            {**_score(score), "doubts": [reason for parts, reason in found.doubts(name) if parts == score.parts]}
            for score in found.scores[name]
        ],
    }


def _score(score: Faithfulness) -> Json:
    return {
        "parts": score.parts,
        "size": score.size,
        "of": score.of,
        "top": score.top,
        "random": float(score.random.mean()),
        "score": score.score,
        "interval": score.interval,
    }
