"""The soak: NPCs that live for virtual weeks while everything around them breaks, watched after every step."""
