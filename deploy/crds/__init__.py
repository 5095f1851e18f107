"""The CustomResourceDefinitions, generated from the models in `inferrun.resources`.

Run ``python -m deploy.crds.generate`` after changing a model or a rule; with ``--check`` it only
compares.
"""
