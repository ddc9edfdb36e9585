"""The parts a model is made of: inputs, readouts, pairs, tasks, schedules and layers, one file for each slot.

The names here are what a package with parts of its own needs; `egt.registry` says how parts are found.
"""

from egt.parts.inputs import NodeInput, PairChoice, PairInput
from egt.parts.readouts import LayerPart, LayerPlace, ReadoutPart
from egt.parts.schedules import SchedulePart
from egt.parts.tasks.task import Objective, Row, TaskPart, number
from egt.registry import Part, PartError, Registry, Section, register

__all__ = [
    "LayerPart",
    "LayerPlace",
    "NodeInput",
    "Objective",
    "PairChoice",
    "PairInput",
    "Part",
    "PartError",
    "ReadoutPart",
    "Registry",
    "Row",
    "SchedulePart",
    "Section",
    "TaskPart",
    "number",
    "register",
]
