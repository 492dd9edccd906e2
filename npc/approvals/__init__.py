"""Acts that wait for a person: kept on disk, shown as cards, answered by the operator alone, done once."""
