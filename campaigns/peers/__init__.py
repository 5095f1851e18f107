"""The runner beside other clients of model servers, on the same work, with the same results."""
