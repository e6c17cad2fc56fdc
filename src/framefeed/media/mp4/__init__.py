"""Read facts and sample tables of MP4, MOV and M4V from the moov box, without libav."""
