"""The entry point of `egt`: finds the verb, and turns errors into one readable message and an exit code."""

from __future__ import annotations

import os
import select
import sys
import traceback
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from egt import __version__
from egt.errors import EgtError, RunError

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exits with 0 (done), 1 (the run failed) or 2 (wrong input or usage)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        try:
            app(words, exit_on_error=False, print_error=False)
        finally:
            sys.stdout.flush()  # here, where a closed pipe can be handled
    except (EgtError, CycloptsError) as error:
        if debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1 if isinstance(error, RunError) else 2)
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(1)


def _reader_is_gone() -> bool:
    """Whether nobody reads standard output any more, as after `| head -1`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))
