# What an interactive bash of the tests runs first.
PS1=$'\x1e'
PS2=$'\x1e'
trap 'echo "[exit code $?]"' ERR
