"""Prove from packet headers which frames a decoder outputs."""
