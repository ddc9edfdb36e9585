"""The parts a model is made of: inputs, readouts, pairs, tasks, schedules and layers, one file for each slot.

The names here are what a package with parts of its own needs; `egt.registry` says how parts are found.
"""

from egt.registry import Part, PartError, Registry, Section, register

__all__ = ["Part", "PartError", "Registry", "Section", "register"]
