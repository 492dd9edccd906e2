"""Forty failures of other people's agents, each as a small input with the right behaviour, through the door that a user uses.

The letter of a case is its family: a window, b pairs, c text, d cache, e wire, f disk, g body, h model, i memory. Where the same case is
also decided by a pure part, its unit has a test beside the part.
"""
