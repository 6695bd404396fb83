#!/usr/bin/env bash
# Each command of the command line once, on bundled and on own data, in the current directory.
set -euo pipefail
python - <<'PY'
from fairpca.datasets import load_german_credit
frame = load_german_credit(frame_type="pandas").frame
frame.to_csv("credit.csv", index=False)
frame.head(20).to_parquet("new.parquet")
PY
say() { printf '%s\n' "--- fairpca $*"; fairpca "$@"; }
say --help >/dev/null
commands=$(python -c "import typer; from fairpca.cli.app import app; print(*typer.main.get_command(app).commands)")
for command in $commands; do say "$command" --help >/dev/null; done
say datasets
say compare --n-components 2
[ -s fairpca-report.html ]
say compare credit.csv --sensitive age_group --label credit --method all --repeats 2
say fit credit.csv --sensitive age_group -o model.fairpca
say report model.fairpca credit.csv --label credit --html audit.html
[ -s audit.html ]
say transform model.fairpca new.parquet -o fair.csv
[ "$(wc -l <fair.csv)" -eq 21 ]
say transform model.fairpca new.parquet -o fair.npy
