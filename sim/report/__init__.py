"""What a run was: in words and figures for a terminal (`verdict`), as a file (`figures`, filled by a `Recorder`), and as a page to look at.

Invariant: nothing here changes a run; what is shown was measured outside the product or read from its own log after it has ended.
"""

from sim.report.verdict import SHOWN_FINDINGS, Line, Report, percentile

__all__ = ["SHOWN_FINDINGS", "Line", "Report", "percentile"]
