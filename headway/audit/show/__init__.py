"""An audit as people read it: lines in a terminal, a page, the part of a page. No torch: a report is plain values."""
