"""The five write-ups that framefeed answers, measured again: their published figures, and those of every route here."""
