"""The command line: one short file per verb, that parses, calls the API and prints."""
