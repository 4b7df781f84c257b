"""Measure speed, memory use and scaling of rafm on this machine, beside other installed libraries.

shapes    generated rows                      child     a measurement in a process of its own, bounded in time
trainee   engines and models for the clock    peers     epochs and scoring of other libraries
speed     tables of both                      race      seconds from text to a validation loss
parse     text to rows                        roofline  what the machine allows, and the share reached
growth    cost against size                   memory    what training keeps
budget    how much of it all                  report, figures, command: tables, pictures, the run
"""
