"""A page about a log, for people: one file that opens offline (needs the extra ``report``).

The template is Jinja's, with escaping on; charts are Vega-Lite's, whose scripts vl-convert brings along, so that the
page asks nothing of the network. Names in a log are data wherever they appear.
"""

from manyhands.report.page import write_report

__all__ = ["write_report"]
