"""The methods by name (`catalog`), what an entry is (`entry`), and fitted ones in words (`fitted`).

Facts about methods only: how the command line spells them is in `fairpca.cli`. It imports
`fairpca.data`, and estimators by name when they are asked for.
"""
