"""`npc doctor`: what is wrong before the NPC starts.

Invariant: looking changes nothing and costs next to nothing: no file of ours is written (SQLite may put its empty side files beside a
database), no observation is acknowledged, one tiny message is sent.
"""
