"""What pages show, worked out from operations: plain values and charts, one file a page."""
