"""`egt embed`: embeddings of graphs, nodes or pairs of any layer, and the nearest ones of training."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from egt.cli.output import Bars, Flag, Settings, Words, with_smiles
from egt.cli.predict import check_writable, finish_parts, group_inputs, report, share_of
from egt.errors import DataError
from egt.inference.folders import Engine, Job
from egt.inference.stream import record_of


def embed(
    artifact: str,
    *inputs: str,
    out: Annotated[str, Parameter(name=["--out", "-o"])],
    split: str | None = None,
    level: Literal["graph", "node", "pair"] = "graph",
    layer: int | None = None,
    neighbors: int = 0,
    smiles: Words = (),
    settings: Settings = (),
    shard: str | None = None,
    engine: Engine = "here",
    json: Flag = False,
) -> None:
    """Write embeddings for files or SMILES: rows in the order of the input, bad rows in place with the reason.

    Args:
        artifact: The folder that `egt train` wrote; of an ensemble the first model embeds, and another one by its own
            folder (ARTIFACT/member1).
        inputs: Files or folders in the format of the training data, or SMILES.
        out: The file to write: .parquet (names, places, embeddings, errors) or .npy (the embeddings alone). A folder
            (`out/`) gets a .parquet file for each input, as of `egt predict`.
        split: Embed this split of the data that the model was trained on, instead of inputs.
        level: What gets an embedding: each graph, each node, or each pair of nodes.
        layer: After how many layers, 0 for what enters the first one; by default after the last one.
        neighbors: Find this many of the nearest training graphs, nodes or pairs of each one (by Euclidean distance); of
            more than 20,000 training nodes or pairs, so many are drawn.
        smiles: Column of the inputs that holds the SMILES, if its name does not say so; for a model of several as many,
            in the order of the training.
        settings: Settings to change, as path=value: overrides.smiles, overrides.id, data.pair_budget, trainer.backend.
        shard: As for `egt predict`.
        engine: As for `egt predict`.
        json: Print one JSON object as the last line.
    """
    if bool(inputs) == (split is not None):
        raise DataError("give either inputs (files or SMILES) or --split")
    parts = share_of(inputs, out, lambda _: ".parquet", shard, engine)
    from egt.inference.embedding_file import embed_part, embed_to_file
    from egt.inference.neighbors import training_rows
    from egt.inference.predictor import load_first

    if parts is None:
        check_writable(Path(out), inputs)
    model = load_first(artifact, set=with_smiles(settings, smiles))
    if parts is not None:
        known = training_rows(model.model, model.config, level=level, layer=layer) if neighbors else None
        embed_each = partial(embed_part, model, known, level=level, layer=layer, neighbors=neighbors)
        finish_parts(parts, Job(embed_each, record_of(model, embed_each.keywords)), out, engine, json=json)
        return
    with Bars(shown=not json) as bars:
        data = group_inputs(inputs)
        written = embed_to_file(
            model, data, Path(out), split=split, level=level, layer=layer, neighbors=neighbors, watch=bars
        )
    report(written, out, {}, json=json)
