"""The rules of the service, without I/O.

Events, decisions, learning, evidence for verdicts, and configurations of loops.
"""
