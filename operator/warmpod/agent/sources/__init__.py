"""Where weights come from: what people call it, what its path leads to, and who has signed it."""
