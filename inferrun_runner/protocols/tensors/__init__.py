"""Tensors, as the protocols that have them share them: from records, and to predictions."""
