"""How Sphinx makes the site; scripts/docs.py puts its sources together."""

import manyhands

project = "manyhands"
author = "The manyhands developers"
copyright = author
version = release = manyhands.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
html_theme = "furo"
html_title = f"manyhands {version}"
html_copy_source = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]

# Markdown: links to headings, as on GitHub. Notebooks are shown with the outputs they were saved with.
myst_heading_anchors = 4
nb_execution_mode = "off"

# Docstrings: NumPy's form, single backquotes for code, members in the order of the source.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
autosummary_generate = False
# Tables name things by the path of users, whichever module is at hand; a word like n_items in the shape of an array
# belongs to several classes, and is then no link.
suppress_warnings = ["autosummary.import_cycle", "ref.python"]
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
