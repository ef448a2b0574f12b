#!/usr/bin/env bash
# Read by other scripts, after clean-debian.sh: does what a Dockerfile says, as root and without
# Docker. It knows what packaging/container/Dockerfile has, and ends at anything else.
#
# The caller has `say` and `die`, a mount namespace of its own, `work` (an empty folder), `log` (a
# file), `given` (values of arguments), and `image NAME FOLDER`, which sets `root` to what stands for
# that image, and `variables`. What the two have for each other looks unused to shellcheck.
# shellcheck disable=SC2034,SC2154

# A stage is a folder, and what its commands see.
declare -A globals=() stages=() arguments=() variables=()
root='' user='' directory='' port='' entrypoint=() command=() health=() net=()

# in_stage SECONDS COMMAND…: in the folder, by the user and with the variables of this stage.
in_stage() {
    local name pairs=(HOME=/root) limit=$1
    shift
    for name in "${!arguments[@]}"; do pairs+=("$name=${arguments[$name]}"); done
    for name in "${!variables[@]}"; do pairs+=("$name=${variables[$name]}"); done
    timeout --kill-after=10 "$limit" "${net[@]}" chroot --userspec="$user" "$root" \
        env -i --chdir="$directory" "${pairs[@]}" "$@"
}

from() {
    [ -z "${2:-}" ] || [ "$2" = AS ] || die "FROM $*: this is not known here"
    arguments=() variables=() user=0:0 directory=/ entrypoint=() command=() health=()
    mkdir "$work/${3:-last}"
    image "$1" "$work/${3:-last}"
    stages[${3:-last}]=$root
}

copy() {
    local context=. source to=${*: -1}
    if [[ $1 == --from=* ]]; then
        context=${stages[${1#--from=}]?there is no such stage}
        shift
    fi
    [[ $to == /* ]] || to=$directory/$to
    for source in "${@:1:$#-1}"; do
        [[ $source != --* ]] || die "COPY $*: $source is not known here"
        # Of a folder, Docker copies what is in it. One of another stage is only shown: it is large.
        if [ "$context" != . ] && [ -d "$context$source" ]; then
            mkdir -p "$root$to"
            mount --rbind "$context$source" "$root$to"
        elif [ -d "$context/$source" ]; then
            mkdir -p "$root$to"
            cp -r --preserve=mode,timestamps "$context/$source/." "$root$to"
        else
            mkdir -p "$(dirname "$root${to}x")"
            cp --preserve=mode,timestamps "$context/$source" "$root$to"
        fi
    done
}

# words LIST: sets `words` to those of a list in JSON.
words() {
    local seen
    seen=$(python3 -c 'import json, sys; print(*json.loads(sys.argv[1]), sep="\n")' "$1") || die "$1 is no list"
    mapfile -t words <<<"$seen"
}

# instruction VERB TEXT
instruction() {
    local verb=$1 text=$2 rest=$2 name pair words
    say "$verb $text"
    # The shell of RUN has the variables itself.
    if [ "$verb" != RUN ]; then
        text=''
        while [[ $rest =~ ^([^\$]*)\$\{?([A-Za-z_0-9]+)\}?(.*)$ ]]; do
            name=${BASH_REMATCH[2]} text+=${BASH_REMATCH[1]} rest=${BASH_REMATCH[3]}
            if [ "$verb" = FROM ]; then text+=${globals[$name]?}; else text+=${variables[$name]-${arguments[$name]?}}; fi
        done
        text+=$rest
    fi
    # shellcheck disable=SC2086
    case $verb in
        ARG)
            name=${text%%=*}
            pair=${given[$name]-${text#*=}}
            if [ -z "$root" ]; then globals[$name]=$pair; else arguments[$name]=$pair; fi
            ;;
        FROM) from $text ;;
        COPY) copy $text ;;
        RUN) in_stage 3600 sh -c "$text" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "this fails; all it said is in $log"; } ;;
        ENV)
            [[ $text != *[\"\'\\]* ]] || die "ENV $text: quotes are not known here"
            for pair in $text; do variables[${pair%%=*}]=${pair#*=}; done
            ;;
        USER) user=$text ;;
        WORKDIR) directory=$text && mkdir -p "$root$directory" ;;
        EXPOSE) port=$text ;;
        ENTRYPOINT) words "$text" && entrypoint=("${words[@]}") ;;
        CMD) words "$text" && command=("${words[@]}") ;;
        HEALTHCHECK) words "${text#*CMD }" && health=("${words[@]}") ;;
        *) die "$verb is not known here" ;;
    esac
}

# follow FILE: its last stage is the one that `in_stage` and the variables above are then of.
follow() {
    local line whole=''
    while IFS= read -r line; do
        [[ ! $line =~ ^[[:space:]]*(#|$) ]] || continue
        whole+=$line
        if [[ $whole == *\\ ]]; then whole=${whole%\\}; continue; fi
        instruction "${whole%% *}" "${whole#* }" </dev/null
        whole=''
    done <"$1"
}
