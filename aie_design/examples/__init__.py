"""Small designs beside the main one."""
