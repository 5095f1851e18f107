"""The program in a run's Pod: it reads the input, sends it to the model server and commits the
predictions.

It knows the contract and the mounted folders. It never imports temporalio or kubernetes.
"""
