#!/bin/sh
# check_kernel_symbols.sh NM OBJECT...: a kernel object defines one global symbol, its KernelSet, and no weak
# one. It is built for a CPU that others lack, and the linker may take a weak copy for the whole program.
set -eu
nm=$1
shift
status=0
for object in "$@"; do
  symbols=$("$nm" --defined-only "$object")
  weak=$(echo "$symbols" | awk '$(NF-1) ~ /^[VvWwu]$/ && ++n <= 5 { print $NF }')
  global=$(echo "$symbols" | awk '$(NF-1) ~ /^[A-TX-Z]$/ { print $NF }')
  if [ -n "$weak" ]; then
    echo "$object: weak symbols: $weak"
    echo "  leave templates and inline functions of other headers out of kernel files"
    status=1
  fi
  case $global in
    *"kernel_set_"*) ;;
    *) global="none" ;;
  esac
  if [ "$(echo "$global" | wc -w)" -ne 1 ] || [ "$global" = none ]; then
    echo "$object: global symbols: $global; only its kernel_set_<name> may be one"
    status=1
  fi
done
[ $# -gt 0 ] || { echo "no kernel objects were given"; status=1; }
exit $status
