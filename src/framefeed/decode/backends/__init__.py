"""Decoders, one module a library: each is imported by its name in the registry."""
