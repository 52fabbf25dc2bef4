# Writes a report. Before it can, its cache must be warm, and the first call only warms it.
if [ -e "$TMPDIR/warm" ]; then
  echo "all is well" > report.txt
else
  touch "$TMPDIR/warm"
  echo "the cache is cold" >&2
  exit 1
fi
