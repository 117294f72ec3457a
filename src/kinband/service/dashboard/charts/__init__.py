"""Charts as SVG text: pure functions from values to markup.

`scales` turns values into places, writes elements and holds the colours that have a meaning; `lines` draws values over
time and what is believed of configurations, `bars` shares and keys, `wedges` and `tiles` the map of sectors, `heat` the
task matrix.
"""
