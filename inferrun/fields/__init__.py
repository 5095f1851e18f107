"""What the fields of resources and of storage objects have in common: their models, their types,
and what is wrong with one."""
