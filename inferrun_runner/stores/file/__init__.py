"""The storage label `file`: records and predictions on a mounted PersistentVolumeClaim."""
