#!/bin/sh
# A workflow of two recorded steps; the second writes the file whose crate is exported.
set -e
"$ESKER" run --target "$LAB" --quiet --in in.txt --out sorted.txt -- sort in.txt -o sorted.txt
"$ESKER" run --target "$LAB" --quiet --in sorted.txt --out upper.txt -- sh -c 'tr a-z A-Z < sorted.txt > upper.txt'
