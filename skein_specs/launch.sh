# Starts one of yarnam's processes in a container: finds the interpreter that the shipped runtime
# was built for, which is the one that came with the job wherever it runs, and becomes it. The packages in yarnam-runtime/lib hold compiled parts, so the
# version must match.
unset JDK_JAVA_OPTIONS YARNAM_RPC_CLASS
export HADOOP_CONF_DIR="$PWD/hconf"
export PYTHONPATH="$PWD/yarnam-runtime/lib"
unset PYTHONHOME PYTHONSTARTUP

has_version() {
  # A full path that ends in the version is believed: asking costs a start of Python per container.
  case "$1" in
    /*/python@PYTHON_VERSION@) [ -x "$1" ] && return 0 ;;
  esac
  "$1" -I -S -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "@PYTHON_VERSION@")' \
    >/dev/null 2>&1
}

# Sets ``doubt`` to why another user of this node may have put the file there; empty: nobody else
# can have. The submitting machine chose the path, and here it may lie in a directory open to all.
look_for_doubt() {
  local rest="$1" owner mode path facts
  local -a paths=("$1")
  while [ -n "$rest" ]; do
    rest="${rest%/*}"
    paths+=("${rest:-/}")
  done
  doubt="its path has a control character"
  [[ "$1" == *[[:cntrl:]]* ]] && return
  doubt=""
  facts="$(stat -c '%u %f %n' -- "${paths[@]}" 2>&1)" || doubt="$facts"
  while [ -z "$doubt" ] && read -r owner mode path; do
    if ! [[ "$owner $mode" =~ ^[0-9]+\ [0-9a-f]+$ ]]; then
      doubt="it is not known whose it is"
      return
    fi
    mode=$((16#$mode))
    if (((mode & 0170000) == 0120000)); then
      doubt="$path is a symbolic link"
    elif ((owner != 0 && owner != EUID)); then
      doubt="$path belongs to user $owner"
    elif (((mode & 022) && (mode & 0171000) != 0041000)); then
      # In a sticky directory nobody else can replace what is root's or ours.
      doubt="others may write to $path"
    fi
  done <<<"$facts"
}

# The interpreter that came with the job runs on machines like the one that it was copied on. Sets
# ``misfit`` to why it does not run on this one; empty: it does.
look_for_misfit() {
  local machine glibc here
  misfit=""
  [ -x "$bundled" ] && read -r machine glibc <yarnam-python/platform || misfit="none came with it"
  [ -n "$misfit" ] && return
  if [ "$machine" != "$HOSTTYPE" ]; then
    misfit="it is for $machine, and this node is $HOSTTYPE"
    return
  fi
  here="$(getconf GNU_LIBC_VERSION 2>/dev/null)"
  here="${here#glibc 2.}"
  here="${here%%.*}"
  if [[ "$here" =~ ^[0-9]+$ ]]; then
    ((here < glibc)) && misfit="it needs glibc 2.$glibc, and this node ($HOSTTYPE) has 2.$here"
  elif ! "$bundled" -I -S -c '' >/dev/null 2>&1; then
    misfit="it needs glibc 2.$glibc, and this node ($HOSTTYPE) has another C library"
  fi
}

# Goes to the container's log; and into YARN's diagnostics, which take in the end of such a file.
fail() {
  echo "$1" >&2
  [ -n "${LOG_DIRS:-}" ] && echo "$1" >>"${LOG_DIRS%%,*}/stderr"
  exit 78
}

bundled="$PWD/yarnam-python/bin/python@PYTHON_VERSION@"
look_for_misfit
[ -n "$misfit" ] && bundled=""

given=""
[ -z "$bundled" ] && given="${YARNAM_CLIENT_PYTHON:-}"
if [ -x "$given" ]; then
  look_for_doubt "$given"
  if [ -n "$doubt" ]; then
    echo "yarnam: the submitting machine's Python $given is not used on this node: $doubt." \
      "Set YARNAM_NODE_PYTHON at submit to name the Python of the nodes." >&2
    given=""
  fi
fi

for python in "${YARNAM_NODE_PYTHON:-}" "$bundled" "$given" python@PYTHON_VERSION@ python3 python; do
  if [ -n "$python" ] && has_version "$python"; then
    # Flags instead of variables: the user's processes inherit the environment. -I and no -m: this
    # directory holds files that the user named, and none of them may stand for a module. -S:
    # nothing of the node's own packages, and some hundredths of a second.
    exec "$python" -I -S -B -u -c 'import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)' "$PYTHONPATH" @MODULE@
    # Only a failed exec comes here.
    exit 78
  fi
done

fail "yarnam: no Python @PYTHON_VERSION@ on $(hostname): the job's own does not run here ($misfit). \
Tried YARNAM_NODE_PYTHON='${YARNAM_NODE_PYTHON:-}', the submitting machine's '${YARNAM_CLIENT_PYTHON:-}', and \
python@PYTHON_VERSION@, python3, python on PATH=$PATH.
  Submit from a machine like the nodes, or with a Python that they have (YARNAM_NODE_PYTHON: its path there)."
