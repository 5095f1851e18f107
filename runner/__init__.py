"""The program in the Pod: it streams the input, calls the model server and commits the predictions.

It knows the contract, the mounted folders and nothing of Kubernetes or Temporal: neither package is ever imported here.
"""
