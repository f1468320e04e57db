"""From a canonical problem to an AMD NPU: slabs, programs on disk, XRT, diagnosis."""
