"""Job descriptions of other systems as specs: a pure function for each format.

Every key is converted, dropped with a reason, or refused; none is forgotten.
"""

from __future__ import annotations
