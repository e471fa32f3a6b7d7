/* SPDX-License-Identifier: Apache-2.0 */
/* code.c - see code.h. */
#include "common/job/code.h"

#include "common/base/sha256.h"
#include "common/base/xalloc.h"
#include "common/script/script_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes the numbers and traits of a message. */
static void clear(Psgd__V1__CodeFile *file)
{
    for (size_t i = 0; i < file->n_numbers; i++) {
        psgd__v1__code_number__free_unpacked(file->numbers[i], NULL);
    }
    free(file->numbers);
    file->numbers = NULL;
    file->n_numbers = 0;
    for (size_t i = 0; i < file->n_traits; i++) {
        free(file->traits[i]);
    }
    free(file->traits);
    file->traits = NULL;
    file->n_traits = 0;
}

static void store(Psgd__V1__CodeFile *file, const ps_script_about *about)
{
    char hex[PS_SHA256_HEX_BYTES];

    clear(file);
    ps_sha256_of(file->text, strlen(file->text), hex);
    ps_spec_set(&file->sha256, hex);
    ps_spec_set(&file->kind, about->kind);
    ps_spec_set(&file->name, about->name);
    ps_spec_set(&file->summary, about->summary);
    file->bits = about->bits;
    file->numbers = ps_xcalloc(about->number_count + 1, sizeof(void *));
    for (uint32_t i = 0; i < about->number_count; i++) {
        const ps_param *p = &about->numbers[i];
        Psgd__V1__CodeNumber *number = ps_xmalloc(sizeof *number);

        psgd__v1__code_number__init(number);
        number->name = ps_xstrdup(p->name);
        number->help = ps_xstrdup(p->help);
        number->value = p->value;
        number->min = p->min;
        number->max = p->max;
        number->is_integer = p->is_integer;
        file->numbers[file->n_numbers++] = number;
    }
    file->traits = ps_xcalloc(32, sizeof(void *));
    for (uint32_t trait = 1; trait < PS_TRAIT_END; trait *= 2) {
        if ((about->traits & trait) != 0) {
            file->traits[file->n_traits++] = ps_xstrdup(ps_script_trait_name(trait));
        }
    }
}

/* Runs the checks of script_check.h on the plugin, so that its errors are found before the job is
 * accepted. Returns a failed check as PS_INVALID_ARGUMENT. */
static ps_status try_out(const Psgd__V1__CodeFile *file, const ps_script_about *about)
{
    ps_script *script = ps_script_open(file->file, file->text, strlen(file->text), about);
    ps_status st = ps_script_check(script, NULL);

    ps_script_close(script);
    if (st.code == PS_FAILED_PRECONDITION) {
        st.code = PS_INVALID_ARGUMENT;
    }
    return st;
}

ps_status ps_code_complete(Psgd__V1__JobSpec *spec, ps_violate_fn *violate, void *arg)
{
    ps_status result = ps_ok();

    if (spec->n_code > PS_CODE_FILES_MAX) {
        return ps_ok(); /* ps_plan_create reports the error */
    }
    for (size_t i = 0; i < spec->n_code; i++) {
        Psgd__V1__CodeFile *file = spec->code[i];
        ps_script_about about;
        char field[64];
        ps_status st = ps_script_describe(file->text, strlen(file->text), &about);

        if (ps_is_ok(&st)) {
            st = try_out(file, &about);
        }
        if (ps_is_ok(&st)) {
            store(file, &about);
            continue;
        }
        snprintf(field, sizeof field, "spec.code[%zu].text", i);
        if (violate != NULL) {
            violate(arg, field, st.text);
        }
        result = ps_is_ok(&result) ? ps_wrap(st, "%s", field) : result;
    }
    return result;
}

static bool is_text(const char *text, size_t cap)
{
    return strlen(text) < cap && strpbrk(text, "\n\r\t\x1b") == NULL;
}

static bool read_number(const Psgd__V1__CodeNumber *number, ps_script_about *about)
{
    uint32_t i = about->number_count++;

    if (!is_text(number->name, sizeof about->names[i]) || number->name[0] == '\0' ||
        !is_text(number->help, sizeof about->help[i]) || !isfinite(number->min) ||
        !isfinite(number->max) || !(number->min <= number->value && number->value <= number->max)) {
        return false;
    }
    snprintf(about->names[i], sizeof about->names[i], "%s", number->name);
    snprintf(about->help[i], sizeof about->help[i], "%s", number->help);
    about->numbers[i] = (ps_param){
        .name = about->names[i],
        .value = number->value,
        .min = number->min,
        .max = number->max,
        .is_integer = number->is_integer,
        .help = about->help[i],
    };
    return true;
}

bool ps_code_about_of(const Psgd__V1__CodeFile *file, ps_script_about *about)
{
    *about = (ps_script_about){.bits = file->bits};
    if (file->kind[0] == '\0' || !is_text(file->kind, sizeof about->kind) ||
        file->name[0] == '\0' || !is_text(file->name, sizeof about->name) ||
        !is_text(file->summary, sizeof about->summary) || !(file->bits > 0 && file->bits <= 64) ||
        file->n_numbers > ps_script_numbers_max(file->kind)) {
        return false;
    }
    snprintf(about->kind, sizeof about->kind, "%s", file->kind);
    snprintf(about->name, sizeof about->name, "%s", file->name);
    snprintf(about->summary, sizeof about->summary, "%s", file->summary);
    for (size_t i = 0; i < file->n_traits; i++) {
        for (uint32_t trait = 1; trait < PS_TRAIT_END; trait *= 2) {
            about->traits |= strcmp(file->traits[i], ps_script_trait_name(trait)) == 0 ? trait : 0;
        }
    }
    for (size_t i = 0; i < file->n_numbers; i++) {
        if (!read_number(file->numbers[i], about)) {
            return false;
        }
    }
    return true;
}
