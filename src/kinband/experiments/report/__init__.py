"""The reports of the demonstration and of an audit: HTML pages that need nothing beside themselves.

`findings` turns runs into numbers and words, `pictures` draws them once for light and dark pages, wide and narrow ones,
and `page` puts all together; what pages say stands in `templates`, in the style of the dashboard.
"""
