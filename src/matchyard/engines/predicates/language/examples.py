"""Examples of predicates and events, for the errors of this language."""

PREDICATE = 'area = "north" and temp > 30 or wind > 20'
PATTERN = '{"area": ["north"], "temp": [{"numeric": [">", 30]}]}'
EVENT = '{"area": "north", "temp": 31}'
