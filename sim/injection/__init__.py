"""Attacks by words: more than a hundred of them, told over every channel a world has, to a model stand-in that obeys each one."""
