"""HTML reports for people: one self-contained file that opens offline (needs the extra ``report``).

Jinja renders the page with escaping on. Vega-Lite draws the charts, with the scripts that vl-convert ships, so that the
page makes no network request. Names from a log are always data, never markup.
"""

from manyhands.report.page import write_report

__all__ = ["write_report"]
