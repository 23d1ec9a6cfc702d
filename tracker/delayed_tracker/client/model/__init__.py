"""Values of the client: answers, settings, ranges of single fields.

Takes protobuf messages, gives frozen values.
Open ``answers.py`` first.
"""
