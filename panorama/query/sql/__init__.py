"""A plan, or SQL around it, enters; SQL that DuckDB runs leaves, and what that needs made beforehand."""
