"""Charts as SVG text: pure functions from values to markup.

`scales` turns values into places, `marks` writes elements, `colours` holds what has a meaning; `lines` draws values
over time (`curves`), `bands` what is believed of configurations, `bars` shares and keys, `wedges` the map of sectors
(of an area, `areas`), `heat` the task matrix.
"""
