"""File formats and kinds of Python objects that raw data is read from: one file each, registered in `FORMATS`.

A format of an installed package is registered in the same way, in a module that the package announces as an entry point
of the group `egt.parts`.
"""
