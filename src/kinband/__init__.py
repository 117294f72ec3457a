"""kinband: base stations that learn their configuration from each other."""
