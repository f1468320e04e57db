"""The AMD NPU design: plan a tiled matrix transpose, then express it as an IRON program."""
