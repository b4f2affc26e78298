"""The explorer: bags, subgraphs and refinement in a browser, from a local server or in one file."""

from esan.explore.choice import Choice as Choice
from esan.explore.choice import FieldError as FieldError
from esan.explore.page import page as page
from esan.explore.page import save_page as save_page
from esan.explore.server import Server as Server
from esan.explore.stories import STORIES as STORIES
from esan.explore.stories import Story as Story
from esan.explore.view import view as view
