"""Feature flags that learn: OpenFeature's remote evaluation protocol (OFREP 0.3)."""
