"""Fill a cache ahead of a plan, and estimate what that costs."""
