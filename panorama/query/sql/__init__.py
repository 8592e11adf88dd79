"""A plan, or the SQL around it, comes in; SQL for DuckDB goes out, and what must be prepared for it."""
