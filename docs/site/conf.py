"""The documentation site: the pages of `docs/` as they are, with a reference that the program writes itself."""

project = "Esker"
author = "The Esker developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Esker"
html_extra_path = ["_extra"]
# Nothing from another host: a reader in a machine hall has none.
html_theme_options = {"top_of_page_buttons": []}
html_show_sourcelink = False
# Chains, filters and sessions are in languages of our own.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]
