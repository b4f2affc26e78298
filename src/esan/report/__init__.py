"""Reports: the results of records beside the paper's numbers, as HTML page, Markdown tables and SVG plots."""

from esan.report.gather import GatheredRecords as GatheredRecords
from esan.report.gather import gather as gather
from esan.report.page.html_page import html as html
from esan.report.page.prediction_plots import PredictionTable as PredictionTable
from esan.report.page.prediction_plots import load_predictions as load_predictions
from esan.report.reproduced_tables import TABLES as TABLES
from esan.report.reproduction.run_tables import reproduce as reproduce
from esan.report.reproduction.run_tables import reproduce_tables as reproduce_tables
from esan.report.rows import Row as Row
from esan.report.rows import row_of as row_of
from esan.report.tables import markdown as markdown
