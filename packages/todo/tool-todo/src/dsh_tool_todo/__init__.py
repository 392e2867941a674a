"""The todo_write tool."""
