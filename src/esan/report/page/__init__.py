"""The HTML page of a report: its text, its plots as SVG, and the script and style of `static`."""
