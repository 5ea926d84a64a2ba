# Starts one of yarnam's processes in a container: finds the interpreter that the shipped runtime
# was built for and becomes it. The packages in yarnam-runtime/lib hold compiled parts, so the
# version must match.
unset JDK_JAVA_OPTIONS
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

for python in "${YARNAM_PYTHON:-}" python@PYTHON_VERSION@ python3 python; do
  if [ -n "$python" ] && has_version "$python"; then
    # Flags instead of variables: the user's processes inherit the environment. -S: nothing of the
    # node's own packages, and some hundredths of a second.
    exec "$python" -S -B -u -m @MODULE@
    # Only a failed exec comes here.
    exit 78
  fi
done

echo "yarnam: no Python @PYTHON_VERSION@ on $(hostname): tried YARNAM_PYTHON='${YARNAM_PYTHON:-}'," \
  "python@PYTHON_VERSION@, python3, python on PATH=$PATH" >&2
echo "  Install it on the nodes, or submit with a Python that the nodes have" \
  "(or submit with YARNAM_NODE_PYTHON set to its path on the nodes)." >&2
exit 78
