# Sorts the names.
sort "$1" > sorted.txt
