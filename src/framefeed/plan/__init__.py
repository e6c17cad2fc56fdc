"""Pure arithmetic: position -> request. No files, clocks, threads or global generators."""
