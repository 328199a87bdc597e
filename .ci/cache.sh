# Sourced by .ci/run: where engines are kept between runs. A native build of another CPU may crash,
# so the folder is named by architecture, CPU flags and Python version.
cpu="$( (grep -m1 -E '^(flags|Features)' /proc/cpuinfo 2>/dev/null || sysctl -n machdep.cpu 2>/dev/null || uname -a) | cksum | cut -d' ' -f1)"
python_tag="$("${PYTHON:-python3}" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')"
cache="${CACHETRACE_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cachetrace-ci}/$(uname -m)-$cpu-$python_tag"
mkdir -p "$cache"
export cache
