"""Whether a molecule has one answer in all of its spellings, and what reading it so costs.

    python -m benchmarks.spellings RUN [--tries 10] [--rounds 5]

Reads EGT_DATA_DIR (MoleculeNet, MoleculeACE). RUN is a trained model of molecules. Of 500 molecules, half of them
drug-like ones with stereo centers, random spellings are predicted and compared with the molecule as the table writes
it: once as the model reads them, and once without canonical reading. Then both ways of reading take turns with chunks
of these molecules; times are processor time, the ratio is the median over the chunks.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from rdkit import Chem

import egt
from egt.config.run_data import open_new, preparation
from egt.data.download import data_folder
from egt.data.preparing import prepare_in_memory
from egt.data.source import ALL
from egt.inference.artifact import Artifact
from egt.inference.predictor import Predictor
from egt.testing import check_spellings

PLAIN = ("moleculenet/esol.csv.gz", "tdc_admet/lipophilicity_astrazeneca/train_val.csv.gz")
CHIRAL = ("moleculeace/CHEMBL204_Ki.csv.gz", "moleculeace/CHEMBL219_Ki.csv.gz")
COUNT, CHUNK = 500, 50


def main() -> None:
    """Print what was found as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--tries", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    model = egt.load(options.run)
    smiles = [*chosen(PLAIN, chiral=False), *chosen(CHIRAL, chiral=True)]
    for reading, predictor in (("canonical", model), ("as written", as_written(model))):
        found = deviations(predictor, smiles, options.tries)
        about = {"reading": reading, "molecules": len(found), "spellings of each": options.tries}
        shares = {f"over {limit:g}": float(np.mean(found > limit)) for limit in (1e-5, 0.01)}
        print(json.dumps({**about, "largest difference": float(found.max()), **shares}), flush=True)
    print(json.dumps({"prepared, us a molecule": costs(model, smiles, options.rounds)}))


def chosen(files: Sequence[str], *, chiral: bool) -> list[str]:
    """Return molecules of some tables, equally many of each, with or without stereo centers."""
    found = []
    for name in files:
        table = pd.read_csv(data_folder() / name)
        column = next(each for each in table.columns if each.lower() in ("smiles", "drug"))
        texts = table[column].drop_duplicates().sample(frac=1, random_state=0)
        kept = [text for text in texts if ("@" in text) == chiral and Chem.MolFromSmiles(text) is not None]
        found += kept[: COUNT // 2 // len(files)]
    return found


def as_written(model: Predictor) -> Predictor:
    """Return the model as it would read molecules without canonical ranks and labels."""
    artifact, schema = model.artifact, model.config.data.custom
    assert isinstance(artifact, Artifact)
    assert schema is not None
    data = model.config.data.model_copy(update={"custom": schema.model_copy(update={"canonical": False})})
    return Predictor(replace(artifact, config=model.config.model_copy(update={"data": data})))


def deviations(model: Predictor, smiles: Sequence[str], tries: int) -> np.ndarray:
    """(molecules,) how far the answer for any spelling is from that for the molecule as it is written here."""
    answers = []

    def answer(texts: Sequence[str]) -> torch.Tensor:
        values = [each.values for each in model.predict(list(texts))]
        answers.append([float(each[0, 0]) for each in values if each is not None])
        return torch.tensor(answers[-1])[:, None]

    check_spellings(answer, smiles, tries=tries, atol=np.inf)
    found = np.array(answers)
    worst: np.ndarray = np.abs(found[1:] - found[0]).max(0)
    return worst


def costs(model: Predictor, smiles: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the processor time of reading molecules and computing their encodings, in microseconds a molecule."""
    predictors = {"canonical": model, "as written": as_written(model)}
    spent: dict[str, list[float]] = {name: [] for name in predictors}
    for start in [*range(0, len(smiles), CHUNK)] * rounds:
        for name, predictor in predictors.items():
            source = open_new(predictor.config, smiles[start : start + CHUNK])
            began = time.process_time()
            assert all(part.samples for part in prepare_in_memory(source, ALL, preparation(predictor.config)))
            spent[name].append((time.process_time() - began) / CHUNK * 1e6)
    ratio = np.median(np.divide(spent["canonical"], spent["as written"]))
    return {**{name: round(float(np.median(each))) for name, each in spent.items()}, "ratio": round(float(ratio), 3)}


if __name__ == "__main__":
    main()
