"""The crash proof: a world and an NPC are killed with signal 9 at random instants, and both disks are compared with what happened.

`trial` runs it, `harbour` is the world that gets killed, `judge` says what held, `report` puts it into words, `command` is for a terminal.
"""
