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
        name: in tables and in the study.
        default: its value in the run that is tuned.
        near: values beside the default, the more promising ones first.
        suggest: asks a trial for a value.
        settings: value -> settings of the run, path -> value.
    """

    name: str
    default: Value
    near: Sequence[Value]
    suggest: Callable[[Trial], Value]
    settings: Callable[[Any], Mapping[str, Any]]


def search_space(config: RunConfig, num_labels: float, num_graphs: int, fixed: Collection[str] = ()) -> list[Knob]:
    """Return the knobs of a run.

    Args:
        config: the run, with the defaults.
        num_labels: graphs, nodes or edges to learn from, about.
        num_graphs: of the training split.
        fixed: paths of settings that the user has decided; a knob that would change one is left out, and so is the
            choice of a part that the user has given any setting of.
    """
    room = sum(num_labels >= size for size in _SIZES)
    model = config.model
    knobs = [
        _rate(config.optimizer.lr),
        _width(config, more=(2, 4, 8)[room]),
        _layers(model.num_layers, more=(1, 2, 4)[room]),
        *(_dropout(config, name, most=(0.5, 0.4, 0.2)[room]) for name in _dropouts(config)),
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


def changed(space: Sequence[Knob], values: Mapping[str, Value]) -> dict[str, Any]:
    """Return the settings that differ from the defaults, path -> value."""
    found: dict[str, Any] = {}
    for knob in space:
        if values[knob.name] != knob.default:
            found |= knob.settings(values[knob.name])
    return found


def with_values(config: RunConfig, space: Sequence[Knob], values: Mapping[str, Value]) -> RunConfig:
    """Return the run of a trial."""
    return override(config, changed(space, values), where="a trial")


def _rate(default: float) -> Knob:
    return Knob(
        "lr",
        default,
        (default * 2, default / 2),
        lambda trial: float(trial.suggest_float("lr", default / 10, default * 5, log=True)),
        lambda value: {"optimizer.lr": value},
    )


def _width(config: RunConfig, more: int) -> Knob:
    """Vary the node width in quarters of the default, and the edge width with it; both are multiples of the heads."""
    model = config.model
    default, heads = model.node_width, model.num_heads
    step = heads * max(1, round(default / 4 / heads))
    low, high = default - step * min(2, (default - 1) // step), default + step * more

    def settings(value: int) -> dict[str, Any]:
        edges = heads * max(1, round(model.edge_width * value / default / heads))
        return {"model.node_width": value, "model.edge_width": edges}

    return Knob(
        "width",
        default,
        (default + step, max(low, default - step)),
        lambda trial: int(trial.suggest_int("width", low, high, step=step)),
        settings,
    )


def _layers(default: int, more: int) -> Knob:
    low = max(1, default - 2)
    return Knob(
        "layers",
        default,
        (default + 1, max(low, default - 1)),
        lambda trial: int(trial.suggest_int("layers", low, default + more)),
        lambda value: {"model.num_layers": value},
    )


def _dropouts(config: RunConfig) -> tuple[str, ...]:
    return ("attention", "node", "edge") if config.model.updates_edges else ("attention", "node")


def _dropout(config: RunConfig, channel: str, most: float) -> Knob:
    """Vary the dropouts of the attention, or of a channel and its feed-forward block."""
    places = (f"{channel}_dropout",) if channel == "attention" else (f"{channel}_dropout", f"{channel}_ffn_dropout")
    default: float = getattr(config.model, places[0])
    name, high = f"{channel} dropout", max(most, default)
    return Knob(
        name,
        default,
        (min(default + _DROPOUT_STEP, high), max(default - _DROPOUT_STEP, 0.0)),
        lambda trial: float(trial.suggest_float(name, 0.0, high)),
        lambda value: {f"model.{place}": value for place in places},
    )


def _batch_size(default: int, num_graphs: int) -> Iterator[Knob]:
    """Vary the batch size by halving and doubling it; nothing where there are only a few graphs."""
    largest = max(default, num_graphs // 8)
    choices = sorted({size for size in (default // 4, default // 2, default, 2 * default) if 1 <= size <= largest})
    if num_graphs > 1 and len(choices) > 1:
        yield Knob(
            "batch size",
            default,
            [size for size in (default // 2, 2 * default) if size in choices],
            lambda trial: int(trial.suggest_categorical("batch size", choices)),
            lambda value: {"data.batch_size": value},
        )


def _readout(config: RunConfig) -> Iterator[Knob]:
    """Vary how graphs are read; nodes, edges and links have one way."""
    if config.model.level == "graph":
        default = config.model.readout.kind
        choices = list(dict.fromkeys((default, *_READOUTS)))
        yield Knob(
            "readout",
            default,
            choices[1:],
            lambda trial: str(trial.suggest_categorical("readout", choices)),
            lambda value: {"model.readout.kind": value},
        )
