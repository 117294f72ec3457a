"""Learners on environments: `play` runs one, `demo` compares several, `figures` draws what came out."""
