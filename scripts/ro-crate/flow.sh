#!/bin/sh
# A workflow of two steps, each recorded; the file that is asked about comes out of the second.
set -e
"$ESKER" run --target "$LAB" --quiet --in in.txt --out sorted.txt -- sort in.txt -o sorted.txt
"$ESKER" run --target "$LAB" --quiet --in sorted.txt --out upper.txt -- sh -c 'tr a-z A-Z < sorted.txt > upper.txt'
