/* The seal report's check of a boot: where it reads the request (there is none yet), the clock,
 * random numbers, the environment or shared caches. What it makes of them is in the image, the same
 * for all visitors.
 *
 * Functions get a handler in front of their own, and so do the opcodes that fetch a superglobal.
 * Both are installed for a report only, so that no other worker pays for them. */
#include "sealed/boot_reads.h"
#include "ground/override.h"
#include "ground/state.h"
#include "sealed/heap_walk.h"

/* ---- what was read ---- */

/* Enough for people to read. With a tenth a framework's own reads would hide the application's. */
enum { MOST_READS = 256 };

static struct {
    const char *kind;
    char text[LONGEST_NAME]; /* "what at file:line" */
} reads[MOST_READS];
static size_t read_count;

/* Of a long path the end is kept. */
static void note(const char *kind, const char *what)
{
    const char *file = zend_get_executed_filename();
    char text[LONGEST_NAME], end[16];
    size_t line_len = (size_t)snprintf(end, sizeof(end), ":%u", zend_get_executed_lineno());
    size_t room = sizeof(text) - 1 - strlen(what) - 4 - line_len;
    size_t len = strlen(file);

    snprintf(text, sizeof(text), "%s at %s%s", what, len > room ? file + len - room : file, end);
    for (size_t i = 0; i < read_count; i++) {
        if (strcmp(reads[i].text, text) == 0) {
            return;
        }
    }
    if (read_count < MOST_READS) {
        reads[read_count].kind = kind;
        strcpy(reads[read_count++].text, text);
    }
}

static int is_boot(void)
{
    return !shim.script.loops && serving->stage == STAGE_BOOT;
}

/* ---- functions ---- */

static int has_first(const zend_execute_data *call)
{
    return ZEND_CALL_NUM_ARGS(call) > 0 && Z_TYPE_P(ZEND_CALL_ARG(call, 1)) == IS_STRING;
}

static int without_time(zend_execute_data *call)
{
    return ZEND_CALL_NUM_ARGS(call) < 2;
}

/* "now", "tomorrow" and nothing depend on the clock, "2020-02-02" and "@86400" do not. */
static int relative_to_now(zend_execute_data *call)
{
    return !has_first(call) || !strchr("0123456789@", *Z_STRVAL_P(ZEND_CALL_ARG(call, 1))) ||
           !Z_STRLEN_P(ZEND_CALL_ARG(call, 1));
}

static int of_request_body(zend_execute_data *call)
{
    return has_first(call) && strcasecmp(Z_STRVAL_P(ZEND_CALL_ARG(call, 1)), "php://input") == 0;
}

static const char request[] = "request", clock_time[] = "time", chance[] = "random numbers";
static const char environment[] = "environment", cache[] = "shared cache";
static const char *const kinds[] = {request, clock_time, chance, environment, cache};

static struct {
    const char *kind, *class, *name;
    int (*counts)(zend_execute_data *call); /* NULL: always */
    zif_handler real;
} functions[] = {
    {request, NULL, "file_get_contents", of_request_body, NULL},
    {request, NULL, "fopen", of_request_body, NULL},
    {request, NULL, "filter_input", NULL, NULL},
    {request, NULL, "filter_input_array", NULL, NULL},
    {request, NULL, "getallheaders", NULL, NULL},
    {request, NULL, "apache_request_headers", NULL, NULL},
    {request, NULL, "tokamak_request_headers", NULL, NULL},
    {request, NULL, "session_start", NULL, NULL},
    {clock_time, NULL, "time", NULL, NULL},
    {clock_time, NULL, "microtime", NULL, NULL},
    {clock_time, NULL, "hrtime", NULL, NULL},
    {clock_time, NULL, "gettimeofday", NULL, NULL},
    {clock_time, NULL, "date", without_time, NULL},
    {clock_time, NULL, "gmdate", without_time, NULL},
    {clock_time, NULL, "idate", without_time, NULL},
    {clock_time, NULL, "strtotime", relative_to_now, NULL},
    {clock_time, NULL, "date_create", relative_to_now, NULL},
    {clock_time, NULL, "date_create_immutable", relative_to_now, NULL},
    {clock_time, "datetime", "__construct", relative_to_now, NULL},
    {clock_time, "datetimeimmutable", "__construct", relative_to_now, NULL},
    {chance, NULL, "rand", NULL, NULL},
    {chance, NULL, "mt_rand", NULL, NULL},
    {chance, NULL, "random_int", NULL, NULL},
    {chance, NULL, "random_bytes", NULL, NULL},
    {chance, NULL, "lcg_value", NULL, NULL},
    {chance, NULL, "uniqid", NULL, NULL},
    {chance, NULL, "shuffle", NULL, NULL},
    {chance, NULL, "str_shuffle", NULL, NULL},
    {chance, NULL, "array_rand", NULL, NULL},
    {chance, NULL, "openssl_random_pseudo_bytes", NULL, NULL},
    {chance, "random\\randomizer", "__construct", NULL, NULL},
    {environment, NULL, "getenv", NULL, NULL},
    {cache, NULL, "apcu_fetch", NULL, NULL},
    {cache, NULL, "apcu_exists", NULL, NULL},
    {cache, NULL, "apcu_entry", NULL, NULL},
    {cache, NULL, "shm_get_var", NULL, NULL},
    {cache, NULL, "shmop_read", NULL, NULL},
};
enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

static ZEND_FUNCTION(noted)
{
    const zend_function *f = execute_data->func;
    const zend_class_entry *class = f->common.scope;

    for (size_t i = 0; i < FUNCTIONS; i++) {
        if (!functions[i].real || !class != !functions[i].class ||
            strcasecmp(functions[i].name, ZSTR_VAL(f->common.function_name)) != 0 ||
            (class && strcasecmp(functions[i].class, ZSTR_VAL(class->name)) != 0)) {
            continue;
        }
        if (is_boot() && (!functions[i].counts || functions[i].counts(execute_data))) {
            char what[64];
            snprintf(what, sizeof(what), class ? "new %s" : "%s()",
                     ZSTR_VAL(class ? class->name : f->common.function_name));
            note(functions[i].kind, what);
        }
        functions[i].real(INTERNAL_FUNCTION_PARAM_PASSTHRU);
        return;
    }
}

/* ---- superglobals ---- */

static const char *const superglobals[] = {
    "_SERVER", "_GET", "_POST", "_COOKIE", "_REQUEST", "_FILES", "_SESSION", "_ENV",
};

/* The key, if the next opcode takes a named element out of what this one fetches. */
static const char *key_of(const zend_op *fetch)
{
    const zend_op *next = fetch + 1;

    switch (next->opcode) {
    case ZEND_FETCH_DIM_R: case ZEND_FETCH_DIM_IS: case ZEND_FETCH_DIM_W:
    case ZEND_ISSET_ISEMPTY_DIM_OBJ:
        if (next->op1_type == fetch->result_type && next->op1.var == fetch->result.var &&
            next->op2_type == IS_CONST && Z_TYPE_P(RT_CONSTANT(next, next->op2)) == IS_STRING) {
            return Z_STRVAL_P(RT_CONSTANT(next, next->op2));
        }
        return NULL;
    default:
        return NULL;
    }
}

static int on_fetch(zend_execute_data *execute_data)
{
    const zend_op *op = EX(opline);
    char what[64];

    for (size_t i = 0; is_boot() && i < sizeof(superglobals) / sizeof(*superglobals); i++) {
        const char *key;
        if (op->op1_type != IS_CONST ||
            strcmp(Z_STRVAL_P(RT_CONSTANT(op, op->op1)), superglobals[i]) != 0) {
            continue;
        }
        key = key_of(op);
        snprintf(what, sizeof(what), key ? "$%s['%s']" : "$%s", superglobals[i], key);
        note(strcmp(superglobals[i], "_ENV") == 0 ? environment : request, what);
    }
    return ZEND_USER_OPCODE_DISPATCH;
}

void boot_reads_watch(void)
{
    static const zend_uchar fetches[] = {ZEND_FETCH_R, ZEND_FETCH_IS, ZEND_FETCH_FUNC_ARG};

    for (size_t i = 0; i < FUNCTIONS; i++) {
        override_function(functions[i].class, functions[i].name, &functions[i].real,
                               ZEND_FN(noted));
    }
    for (size_t i = 0; i < sizeof(fetches); i++) {
        /* A debugger or a profiler comes first. */
        if (!zend_get_user_opcode_handler(fetches[i])) {
            zend_set_user_opcode_handler(fetches[i], on_fetch);
        }
    }
}

void boot_reads_push(void)
{
    int32_t root = walk_push_root("read at boot");

    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        int32_t kind = walk_push(root, PLAIN, kinds[k], strlen(kinds[k]), NULL, 0, 0);
        for (size_t i = 0; i < read_count; i++) {
            if (reads[i].kind == kinds[k]) {
                walk_push(kind, PLAIN, reads[i].text, strlen(reads[i].text), NULL, 0, 0);
            }
        }
    }
}
