"""The demonstration's report: one HTML page that needs nothing beside itself.

`findings` turns runs into numbers, tables and words; `pictures` draws; `page` puts all together in the `style`, in
which one drawing fits light and dark pages, wide and narrow ones.
"""
