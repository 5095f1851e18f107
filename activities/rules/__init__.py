"""What activities decide: functions from values to values, without I/O."""
