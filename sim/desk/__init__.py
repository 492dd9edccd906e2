"""A desk agent: it reads a folder of mail, drafts answers, and may send one only when a verifier and its operator have said so.

It stands on `runtime` as an NPC does, beside no game: nothing of `world_adapter` is imported by `clerk` or by what that imports.
"""
