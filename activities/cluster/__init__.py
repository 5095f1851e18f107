"""The code with which activities read and write the cluster and Temporal."""
