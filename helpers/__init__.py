"""What the lessons import: data, models, the loop, memory, equivalence, figures.

Importing this package costs nothing: each module is loaded when a lesson asks for it.
"""

VERSION = "0.1.0"
