"""What a search varies: a few settings around those of a run, in ranges that follow the size of the data.

Every range holds the default, and a knob that stays at its default changes nothing: the first trial is the run itself.
The next ones change one knob each by a step: a default chosen on other data is often close to the best, and a search
that begins anywhere in the space has no time to find out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from egt.config.load import override
from egt.config.run import RunConfig

if TYPE_CHECKING:
    from optuna.trial import Trial

Value = float | str
_SIZES = (2_000, 50_000)
"""Labels of small and of medium data; there is more room for large models, and less need of dropout, with more."""

_DROPOUT_STEP = 0.1
_READOUTS = ("virtual_nodes", "mean", "scaled_sum", "attention")


@dataclass(frozen=True)
class Knob:
    """One thing that is varied.

    Fields:
        default: its value in the run that is tuned.
        near: values beside the default, the more promising ones first.
        settings: value -> settings of the run, path -> value.
        choices: the values of a knob without a range.
    """

    name: str
    default: Value
    near: Sequence[Value]
    settings: Callable[[Any], Mapping[str, Any]]
    low: float = 0
    high: float = 0
    step: int = 1
    log: bool = False
    choices: Sequence[Value] = ()

    def suggest(self, trial: Trial) -> Value:
        """Ask a trial for a value."""
        if self.choices:
            value: Value = trial.suggest_categorical(self.name, self.choices)
        elif isinstance(self.default, int):
            value = trial.suggest_int(self.name, int(self.low), int(self.high), step=self.step)
        else:
            value = trial.suggest_float(self.name, self.low, self.high, log=self.log)
        return value


def search_space(config: RunConfig, num_labels: float, num_graphs: int, fixed: Collection[str] = ()) -> list[Knob]:
    """Return the knobs of a run, for about so many labels (graphs, nodes or edges) to learn from.

    `fixed` are paths of settings that the user has decided; a knob that would change one is left out, and so is the
    choice of a part that the user has given any setting of.
    """
    room = sum(num_labels >= size for size in _SIZES)
    lr, layers = config.optimizer.lr, config.model.num_layers
    fewest = max(1, layers - 2)
    knobs = [
        Knob("lr", lr, (lr * 2, lr / 2), lambda value: {"optimizer.lr": value}, lr / 10, lr * 5, log=True),
        _width(config, more=(2, 4, 8)[room]),
        Knob(
            "layers",
            layers,
            (layers + 1, max(fewest, layers - 1)),
            lambda value: {"model.num_layers": value},
            fewest,
            layers + (1, 2, 4)[room],
        ),
        *_dropouts(config, most=(0.5, 0.4, 0.2)[room]),
        *_batch_size(config.data.batch_size, num_graphs),
        *_readout(config),
    ]
    return [
        knob for knob in knobs if not any(_decides(path, own) for path in fixed for own in knob.settings(knob.default))
    ]


def _decides(path: str, own: str) -> bool:
    """Return whether a setting of the user decides one of a knob: the same one, a section around it, or its part."""
    section = own.removesuffix(".kind")
    return f"{section}.".startswith(f"{path}.") or f"{path}.".startswith(f"{section}.")


def defaults(space: Sequence[Knob]) -> dict[str, Value]:
    """Return the values of the first trial."""
    return {knob.name: knob.default for knob in space}


def first_trials(space: Sequence[Knob]) -> list[dict[str, Value]]:
    """Return the values of the first trials: the default, then one step of every knob, then the other steps."""
    steps = [
        (rank, knob.name, value)
        for knob in space
        for rank, value in enumerate(value for value in knob.near if value != knob.default)
    ]
    ordered = sorted(steps, key=lambda step: step[0])
    return [defaults(space), *({**defaults(space), name: value} for _, name, value in ordered)]


def collect_changes(space: Sequence[Knob], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the settings that differ from the defaults, path -> value."""
    found: dict[str, Any] = {}
    for knob in space:
        if values[knob.name] != knob.default:
            found |= knob.settings(values[knob.name])
    return found


def with_values(config: RunConfig, space: Sequence[Knob], values: Mapping[str, Value]) -> RunConfig:
    """Return the run of a trial."""
    return override(config, collect_changes(space, values), where="a trial")


def _width(config: RunConfig, more: int) -> Knob:
    """Vary the node width in quarters of the default, and the edge width with it; both are multiples of the heads."""
    model = config.model
    default, heads = model.node_width, model.num_heads
    step = heads * max(1, round(default / 4 / heads))
    low, high = default - step * min(2, (default - 1) // step), default + step * more

    def settings(value: int) -> dict[str, Any]:
        edges = heads * max(1, round(model.edge_width * value / default / heads))
        return {"model.node_width": value, "model.edge_width": edges}

    return Knob("width", default, (default + step, max(low, default - step)), settings, low, high, step)


def _dropouts(config: RunConfig, most: float) -> Iterator[Knob]:
    """Vary the dropouts of the attention, and of each channel with its feed-forward block."""
    places = {"attention": ["attention_dropout"], "node": ["node_dropout", "node_ffn_dropout"]}
    if config.model.updates_edges:
        places["edge"] = ["edge_dropout", "edge_ffn_dropout"]
    for channel, names in places.items():
        default: float = getattr(config.model, names[0])
        high = max(most, default)
        yield Knob(
            f"{channel} dropout",
            default,
            (min(default + _DROPOUT_STEP, high), max(default - _DROPOUT_STEP, 0.0)),
            lambda value, names=names: {f"model.{name}": value for name in names},  # type: ignore[misc]
            high=high,
        )


def _batch_size(default: int, num_graphs: int) -> Iterator[Knob]:
    """Vary the batch size by halving and doubling it; nothing where there are only a few graphs."""
    largest = max(default, num_graphs // 8)
    choices = sorted({size for size in (default // 4, default // 2, default, 2 * default) if 1 <= size <= largest})
    if num_graphs > 1 and len(choices) > 1:
        near = [size for size in (default // 2, 2 * default) if size in choices]
        yield Knob("batch size", default, near, lambda value: {"data.batch_size": value}, choices=choices)


def _readout(config: RunConfig) -> Iterator[Knob]:
    """Vary how graphs are read; nodes, edges and links have one way."""
    if config.model.level == "graph":
        default = config.model.readout.kind
        choices = list(dict.fromkeys((default, *_READOUTS)))
        yield Knob("readout", default, choices[1:], lambda value: {"model.readout.kind": value}, choices=choices)
