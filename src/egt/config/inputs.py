"""What enters a model. Each entry names a precomputed half (`egt.encodings`) and a learned half (`egt.nn.terms`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from egt.section import Section

Absent = Literal["zero", "learned"]
Hops = Annotated[int, Field(ge=1, le=254)]
Sizes = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]


class NodeCategories(Section):
    """Categorical node features; one vocabulary size each."""

    kind: Literal["node_categories"] = "node_categories"
    sizes: Sizes


class NodeValues(Section):
    """Continuous node features."""

    kind: Literal["node_values"] = "node_values"
    num_values: PositiveInt


class Constant(Section):
    """The same learned vector for every node, for graphs without node features."""

    kind: Literal["constant"] = "constant"


class Svd(Section):
    """SVD positional encodings of rank r; `weighted` takes the SVD of the weights instead of 0/1."""

    kind: Literal["svd"] = "svd"
    rank: PositiveInt = 8
    weighted: bool = False


class Laplacian(Section):
    """Eigenvectors of the normalized Laplacian."""

    kind: Literal["laplacian"] = "laplacian"
    rank: PositiveInt = 8


class Degree(Section):
    """In- and out-degree tables."""

    kind: Literal["degree"] = "degree"
    max_degree: PositiveInt = 64


class EdgeCategories(Section):
    """Categorical edge features; `absent` is what a non-edge gets."""

    kind: Literal["edge_categories"] = "edge_categories"
    sizes: Sizes
    absent: Absent = "zero"


class EdgeValues(Section):
    """Continuous edge features; `absent` is what a non-edge gets."""

    kind: Literal["edge_values"] = "edge_values"
    num_values: PositiveInt
    absent: Absent = "zero"


class Distance(Section):
    """Shortest-path distance clipped at `max_hops`, from a table with a row of its own for "farther"."""

    kind: Literal["distance"] = "distance"
    max_hops: Hops = 16


class Reachability(Section):
    """Stacked "reachable in at most k steps" for k up to `num_hops`; 1 is the adjacency matrix with self-loops."""

    kind: Literal["reachability"] = "reachability"
    num_hops: Hops = 16


class RandomWalk(Section):
    """Random-walk probabilities between each pair (RRWP)."""

    kind: Literal["random_walk"] = "random_walk"
    num_steps: PositiveInt = 16


NodeTerm = Annotated[NodeCategories | NodeValues | Constant | Svd | Laplacian | Degree, Field(discriminator="kind")]
PairTerm = Annotated[EdgeCategories | EdgeValues | Distance | Reachability | RandomWalk, Field(discriminator="kind")]
