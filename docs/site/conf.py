"""The documentation site: the pages of `docs/`, and a reference generated from the program."""

project = "Esker"
author = "The Esker developers"
extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "Esker"
html_extra_path = ["_extra"]
html_static_path = ["_static"]
html_css_files = ["esker.css"]
# The theme must load nothing from other hosts, because some readers have no internet.
html_theme_options = {"top_of_page_buttons": []}
html_show_sourcelink = False
# Pygments has no lexers for traversals, filters and sessions.
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]
# Only input has a button. In a session the button copies the commands, without prompts and output.
copybutton_selector = ", ".join(f"div.highlight-{label} pre" for label in ("sh", "console", "python", "pycon", "json", "toml"))
copybutton_prompt_text = r"\$ |>>> |\.\.\. |> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_copy_empty_lines = False
copybutton_line_continuation_character = "\\"
