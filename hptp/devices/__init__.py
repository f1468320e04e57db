"""The devices: one file each, every one providing `DEVICE`, all solving the same canonical problem."""
