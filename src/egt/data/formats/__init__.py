"""File formats and kinds of Python objects that raw data is read from: one file each, registered in `FORMATS`.

An installed package registers formats of its own in a module that it announces as an entry point of `egt.parts`.
"""
