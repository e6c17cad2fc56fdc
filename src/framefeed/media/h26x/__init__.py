"""H.264 and HEVC streams without decoding: parameter sets, NAL units and slice headers of many packets at once."""
