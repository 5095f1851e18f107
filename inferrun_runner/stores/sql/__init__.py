"""The store `sql`: records from a query, and predictions into a table, of a PostgreSQL database."""
