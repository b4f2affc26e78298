"""Reports: what records come to, beside the paper's numbers, as pages, tables and drawings."""

from esan.report.gather import Gathered as Gathered
from esan.report.gather import gather as gather
from esan.report.page import html as html
from esan.report.paper import TABLES as TABLES
from esan.report.reproducing import reproduce as reproduce
from esan.report.rows import Row as Row
from esan.report.rows import row_of as row_of
from esan.report.tables import markdown as markdown
