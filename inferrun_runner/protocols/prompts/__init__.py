"""Prompts from columns: templates, the requests and answers of language models, and asking
again."""
