"""The demonstration's report: one HTML page that needs nothing beside itself.

`findings` turns runs into numbers, `words` says them, `tables` lists them; `pictures`, `sector_map` and `day` draw,
`theme` makes one drawing fit light and dark pages, wide and narrow ones; `page` puts all together in the `style`.
"""
