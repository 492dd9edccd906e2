"""`python -m npc` is `npc`."""

from npc.cli import main

if __name__ == "__main__":
    main()
