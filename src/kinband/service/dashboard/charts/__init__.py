"""Charts as SVG text: `svg` has colours, scales and elements, `lines` draws over time and knobs, `maps` the network."""
