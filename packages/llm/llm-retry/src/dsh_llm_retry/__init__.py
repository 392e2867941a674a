"""Retries failed model requests with backoff."""
