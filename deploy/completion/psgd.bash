# SPDX-License-Identifier: Apache-2.0
# bash completion of psgd and its services. It asks the programs themselves: commands, flags and
# their choices from --help; presets, plugins and fields from psgd; jobs from the coordinator, for
# at most a second.

# _psgd_help PROGRAM [COMMAND] - prints --help.
_psgd_help() {
    "$@" --help 2>/dev/null
}

_psgd_flags() {
    _psgd_help "$@" | sed -nE 's/^ +(-., )?--(\[no-\])?([a-z0-9_-]+).*/--\3/p'
}

# _psgd_choices FLAG PROGRAM [COMMAND] - prints the values that the help lists as "--flag a|b|c".
_psgd_choices() {
    local flag=$1
    shift
    _psgd_help "$@" | sed -nE "s/^ +(-., )?$flag ([a-z0-9_|-]*\|[a-z0-9_|-]*)( .*)?$/\2/p" | tr '|' '\n'
}

_psgd_commands() {
    _psgd_help "$1" | sed -n '/^Commands:/,/\./p' | tr '\n' ' ' |
        sed -e 's/^Commands: //' -e 's/\..*//' -e 's/,//g' -e 's/  */\n/g'
}

# _psgd_info KIND PROGRAM [connection flags] - prints the names of a kind of plugin.
_psgd_info() {
    local kind=$1
    shift
    "$@" --timeout 1s info "$kind" 2>/dev/null | awk -v kind="$kind" '$1 == kind { print $2 }'
}

# _psgd_reply COMMAND... - what it prints, a line each, completes the word. zsh has no mapfile.
_psgd_reply() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <("$@")
}

_psgd() {
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]}
    local previous=${COMP_WORDS[COMP_CWORD - 1]} command='' i skip=0
    local ask=("$program") words=''

    COMPREPLY=()
    # The command is the first word that is no flag and no flag's value; connection flags are passed on.
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [ $skip = 1 ]; then
            skip=0
            continue
        fi
        case ${COMP_WORDS[i]} in
        -c | --coordinator | --tls-dir | --token-file | --format | --timeout)
            case ${COMP_WORDS[i]} in
            --format | --timeout) ;;
            *) ask+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]:-}") ;;
            esac
            skip=1
            ;;
        -*) ;;
        *)
            command=${COMP_WORDS[i]}
            break
            ;;
        esac
    done
    # The rest of the line may name the coordinator too.
    for ((i++; i < COMP_CWORD - 1; i++)); do
        case ${COMP_WORDS[i]} in
        -c | --coordinator | --tls-dir | --token-file)
            ask+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}")
            ;;
        esac
    done

    case $previous in
    -p | --preset) words=$("${ask[@]}" --timeout 1s presets 2>/dev/null | awk 'NR > 1 { print $1 }') ;;
    -s | --set)
        # A field is completed up to its "=".
        words=$("$program" info fields 2>/dev/null | awk 'NR > 1 { print $1 "=" }')
        compopt -o nospace 2>/dev/null
        ;;
    -m | --model) words=$(_psgd_info network "${ask[@]}") ;;
    -D | --data) words=$(_psgd_info data "${ask[@]}") ;;
    -O | --optimizer | --server-optimizer) words=$(_psgd_info optimizer "${ask[@]}") ;;
    --codec | --codec-up | --codec-down) words=$(_psgd_info codec "${ask[@]}") ;;
    --update | --exchange | --assignment | --consistency | --loss | --straggler)
        words=$(_psgd_info "${previous#--}" "${ask[@]}")
        ;;
    --tls-dir | --pki | --output | -o | --data-dir)
        compopt -o filenames 2>/dev/null
        _psgd_reply compgen -d -- "$current"
        return
        ;;
    -*) words=$(_psgd_choices "$previous" "$program" ${command:+"$command"}) ;;
    esac
    if [ -z "$words" ]; then
        case $current in
        -*) words=$(_psgd_flags "$program" ${command:+"$command"}) ;;
        *)
            if [ -z "$command" ]; then
                words=$(_psgd_commands "$program")
            elif [ "$command" = info ]; then
                words="fields $("$program" info 2>/dev/null | awk 'NR > 1 && !/^ / { print $1 }' | sort -u)"
            elif "$program" "$command" --help 2>/dev/null | head -n 1 | grep -q ' JOB'; then
                words=$("${ask[@]}" --timeout 1s list --limit 100 2>/dev/null | awk 'NR > 1 { print $1 }')
            fi
            ;;
        esac
    fi
    if [ -z "$words" ]; then
        compopt -o filenames 2>/dev/null
        _psgd_reply compgen -f -- "$current"
    else
        _psgd_reply compgen -W "$words" -- "$current"
    fi
}

# The services have flags only.
_psgd_service() {
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]}
    local words

    words=$(_psgd_choices "${COMP_WORDS[COMP_CWORD - 1]}" "$program")
    case $current in -*) words=$(_psgd_flags "$program") ;; esac
    if [ -n "$words" ]; then
        _psgd_reply compgen -W "$words" -- "$current"
    else
        compopt -o filenames 2>/dev/null
        _psgd_reply compgen -f -- "$current"
    fi
}

complete -F _psgd psgd
complete -F _psgd_service psgd-coordinator psgd-worker psgd-pserver
