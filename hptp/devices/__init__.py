"""The devices: one file each, each providing `DEVICE`, all solving the same canonical problem."""
