"""Version 2 of the Open Inference Protocol over REST."""
