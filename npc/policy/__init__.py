"""What an NPC may do, in code: the world's declarations, one file of the operator, and a verdict for each act before it is begun."""
