"""Read parameter sets, NAL units and slice headers of H.264 and HEVC, of many packets at once."""
