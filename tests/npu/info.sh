#!/bin/sh
# fi_info lists the provider: one domain per visible device, and the host alone where there is none or it is asked for.
. "${srcdir:-.}/tests/npu/lib.sh"
need fi_info libfabric-bin
sim=$build/.libs/libnpusim.so

domains() {
    fi_info -p npu "$@" 2>&1 | sed -n 's/^ *domain: //p' | tr '\n' ' '
}

[ "$(HCOMM_NPU=off domains)" = "host " ] || complain "without a device: $(HCOMM_NPU=off domains)"
[ "$(HCOMM_NPU=$sim NPUSIM_DEVICES=3 domains)" = "npu0 npu1 npu2 " ] ||
    complain "with 3 devices: $(HCOMM_NPU=$sim NPUSIM_DEVICES=3 domains)"
[ "$(HCOMM_NPU=$sim NPUSIM_DEVICES=3 domains -d npu1)" = "npu1 " ] || complain "npu1 asked for by name"
[ "$(HCOMM_NPU=$sim NPUSIM_DEVICES=3 domains -d host)" = "host " ] || complain "host asked for by name"
[ "$(HCOMM_NPU=$sim NPUSIM_DEVICES=4 ASCEND_RT_VISIBLE_DEVICES=2,3 domains)" = "npu0 npu1 " ] ||
    complain "devices 2,3 visible"
about=$(HCOMM_NPU=$sim NPUSIM_DEVICES=4 ASCEND_RT_VISIBLE_DEVICES=2,3 fi_info -p npu -d npu1 -v 2>&1)
for word in "caps: " "domain_attr" "device: npu1, physical 3" "PCI: " "links: npu0:HCCS"; do
    case $about in
    *"$word"*) ;;
    *) complain "about npu1, \"$word\" is not told" ;;
    esac
done
HCOMM_NPU=$scratch/none.so FI_LOG_LEVEL=warn fi_info -p npu 2>&1 | grep -q "HCOMM_NPU=$scratch/none.so: there is no device" ||
    complain "a device runtime that is not there is not told of"
[ "$failed" -eq 0 ]
