# shellcheck shell=sh
# To be sourced: go OUT ERR COMMAND [ARG...] runs a launcher with its output in files and sets $status.
#
# Slurm 22.05's daemons lose messages to each other when one of them starts slowly, or when both connect at the same
# moment (about one job in a hundred on two nodes of one busy host). They say so, not always to us; whoever waits for the
# message then hears nothing. That is not the bootstrap's failure, so a job on two nodes has up to three goes. A failure
# without those words counts at once.
go() {
    go_out=$1 go_err=$2
    shift 2
    lost='pmixp_p2p_send.*exceeded the retry limit|pmixp_read_buf.*Connection reset'
    case " $* " in *" srun "*" -N 2 "*) lost="$lost|the deadline passed without an answer" ;; esac
    for number in 1 2 3; do
        timeout 300 "$@" >"$go_out" 2>"$go_err"
        status=$?
        [ "$status" -ne 0 ] && grep -Eq "$lost" "$go_out" "$go_err" || return 0
        echo "go $number of $*: Slurm's own daemons did not reach each other" >&2
    done
}
