"""MP4, MOV and M4V without libav: facts and sample tables straight from the moov box."""
