# What does a newcomer have? A fresh clone of what is committed, an empty home, a user who is not root and owns nothing
# else, and nothing of this machine's in the environment but where its packages are from. Sourced: `fresh FOLDER` makes
# FOLDER/clone and FOLDER/home where they are missing, and sets `clean`, the beginning of a command that sees no more
# than this.

say() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

fresh() {
  [ -d "$1/clone" ] || git clone --quiet --no-hardlinks "$(dirname "${BASH_SOURCE[0]}")/.." "$1/clone"
  mkdir -p "$1/home" # empty: no model cache or user site may stand in for a missing install step

  clean=()
  if [ "$(id -u)" -eq 0 ]; then
    clean=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    # Python may lie in root's own home: nobody may read what is there, and write nothing.
    reads=(--inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search)
    if "${clean[@]}" "${reads[@]}" true 2>/dev/null; then clean+=("${reads[@]}"); fi
    chown -R 65534:65534 "$1"
  fi
  # The real one: what stands for it may find another for another user.
  python=$(python3 -c 'import os, sys; print(os.path.dirname(os.path.realpath(sys.executable)))')
  clean+=(env -i "HOME=$1/home" "PATH=$python:$PATH" "LANG=${LANG:-C.UTF-8}" CI=true PYTHONUNBUFFERED=1
    "GRADIO_TEMP_DIR=$1/home/gradio") # else one in /tmp, which may be another user's
  while IFS= read -r -d '' setting; do # where pip finds packages, and whom it trusts, is the machine's business
    case "$setting" in
      PIP_*=* | SSL_CERT_*=* | REQUESTS_CA_BUNDLE=* | CURL_CA_BUNDLE=* | [hH][tT][tT][pP]*_[pP][rR][oO][xX][yY]=* | [nN][oO]_[pP][rR][oO][xX][yY]=*)
        clean+=("$setting")
        ;;
    esac
  done < <(env -0)
  pip_settings="${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf"
  if [ -z "${PIP_CONFIG_FILE:-}" ] && [ -f "$pip_settings" ]; then clean+=("PIP_CONFIG_FILE=$pip_settings"); fi
  # Downloads may be kept between runs, where they are this user's own; what is installed may not.
  if [ -z "${PIP_CACHE_DIR:-}" ] && [ "$(id -u)" -ne 0 ]; then
    clean+=("PIP_CACHE_DIR=${XDG_CACHE_HOME:-$HOME/.cache}/pip")
  fi
}

# readme_line PATTERN: the one command of README.md that matches.
readme_line() {
  local line
  line=$(grep -E -- "^python3 .*$1" README.md)
  [ "$(wc -l <<<"$line")" -eq 1 ] || { echo "README.md must hold exactly one command with $1." >&2; return 1; }
  echo "$line"
}
