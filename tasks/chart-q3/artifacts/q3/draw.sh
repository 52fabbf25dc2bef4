#!/bin/bash
# Draws the second column of a CSV file as bars, into a PNG of one bit a pixel: draw.sh FILE.csv FILE.png
set -eu
height=48 bar=16
mapfile -t values < <(tail -n +2 "$1" | cut -d, -f2)
width=$((bar * ${#values[@]}))

out=""
emit() { for byte in "$@"; do out+=$(printf '\\x%02x' "$byte"); done; }
be32() { echo $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)); }
crc() {
  local c=4294967295 byte bit
  for byte in "$@"; do
    c=$((c ^ byte))
    for bit in 1 2 3 4 5 6 7 8; do c=$((c & 1 ? c >> 1 ^ 3988292384 : c >> 1)); done
  done
  echo $((c ^ 4294967295))
}
chunk() {
  local name=$1 size=$(($# - 1)); shift
  local bytes=($(printf '%d ' "'${name:0:1}" "'${name:1:1}" "'${name:2:1}" "'${name:3:1}") "$@")
  emit $(be32 $size) "${bytes[@]}" $(be32 $(crc "${bytes[@]}"))
}

# Rows from the top: a filter byte, then the pixels, eight to a byte. A bar is a black byte between two white halves.
pixels=()
for ((y = height; y > 0; y--)); do
  pixels+=(0)
  for value in "${values[@]}"; do
    if ((value >= y)); then pixels+=(240 15); else pixels+=(255 255); fi
  done
done
a=1 b=0
for byte in "${pixels[@]}"; do a=$(((a + byte) % 65521)); b=$(((b + a) % 65521)); done
n=${#pixels[@]}

emit 137 80 78 71 13 10 26 10
chunk IHDR $(be32 $width) $(be32 $height) 1 0 0 0 0
chunk IDAT 120 1 1 $((n & 255)) $((n >> 8)) $((~n & 255)) $((~n >> 8 & 255)) "${pixels[@]}" $(be32 $((b << 16 | a)))
chunk IEND
printf "$out" > "$2"
echo "{\"bars\": ${#values[@]}, \"width\": $width, \"height\": $height}"
