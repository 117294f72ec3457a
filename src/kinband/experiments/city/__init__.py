"""The simulated city, as experiments meet it.

`layout` reads where its sectors stand; `stage` puts a trace, its layout, what runs today and what a day is like
together.
"""
