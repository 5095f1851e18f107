"""Several Pods of one run: which of them predicts which chunk."""
