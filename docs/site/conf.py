"""The documentation site: the pages of `docs/`, and a reference generated from the program."""

project = "Esker"
author = "The Esker developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Esker"
html_extra_path = ["_extra"]
# The theme must load nothing from other hosts, because some readers have no internet.
html_theme_options = {"top_of_page_buttons": []}
html_show_sourcelink = False
# Pygments has no lexers for traversals, filters and sessions.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]
