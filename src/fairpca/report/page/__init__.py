"""A comparison as one HTML page: tables (`sheets`), figures (`plots`), sections (`panels`).

It imports what `comparing` finds, and computes nothing but how to show it.
"""
