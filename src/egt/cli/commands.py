"""The commands of `egt`; the code of one is loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence

from cyclopts import App, CycloptsError

from egt import __version__
from egt.errors import EgtError

app = App(
    name="egt",
    help="Edge-augmented Graph Transformer: learn on nodes, edges and whole graphs with global self-attention.",
    version=__version__,
    help_epilogue="Every command takes --debug to show where an error comes from.",
)
app.command("egt.cli.train:train", name="train", help="Train a preset, a run.yaml or your own data.")
app.command("egt.cli.evaluate:evaluate", name="evaluate", help="Measure a trained model.")
app.command("egt.cli.predict:predict", name="predict", help="Predict for files or SMILES.")
app.command("egt.cli.plan:plan", name="plan", help="Tell memory and time of a run before it starts.")
app.command("egt.cli.data:data", name="data", help="List, describe or prepare the data sets.")
app.command("egt.cli.presets:presets", name="presets", help="List the models of the paper, or show one.")
app.command("egt.cli.import_official:import_official", name="import-official", help="Import the authors' weights.")
app.command("egt.cli.doctor:doctor", name="doctor", help="Tell what is installed and run the self-checks.")


def run(words: Sequence[str]) -> None:
    """Run the command that the words name. Words that make no command are an `EgtError`."""
    try:
        app(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise EgtError(str(error)) from error
