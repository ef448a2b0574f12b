/* Connections and streams that a request of async mode waits in, and others must not use.
 *
 * Two requests that use one connection at once would read each other's answers, or free what the
 * other one waits in. Drivers do not expect that: in PHP no other code runs while a function waits.
 * So it is refused before a driver is called at all, by an exception that names both requests.
 *
 * When a request is parked, the object or the streams of the function of PHP that waits are marked.
 * All functions that can be given such are guarded: their handlers are exchanged once, at start-up,
 * so others cost what they did. A guarded function that is called with something marked throws.
 * That holds for every extension, and knows none of them: an object counts for the methods of its
 * class and for functions of the extension that its class comes from; a stream counts wherever it
 * is given, except where anything may be given (var_dump(), in_array(), ...).
 *
 * A request that waits for a lock or for the server is not in a conversation: then no other may
 * close the stream, but everything else may be done with it. One that waits for time in a driver's
 * call is, because the driver is going to try again.
 */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "async/in_use.h"
#include "async/arguments.h"
#include "async/fiber_tags.h"
#include "async/reactor.h"

/* A stream that a request waits in; kept by its handle, which is not used twice. */
typedef struct {
    const request_state *user;
    const zend_function *function;
    bool may_be_shared; /* it must not be closed, that is all */
} stream_use;

static struct {
    zend_class_entry *exception;
    int slot; /* of functions: the handler that a guard stands before */
    HashTable streams;
    /* The function that opens a connection and has no object yet: it is going to return one. */
    const zend_execute_data *opens;
} in_use;

/* Libraries have threads, and these open connections too. */
static _Thread_local bool is_of_php;

/* The first that belongs to a group already; NULL: none does. */
static zend_object *object_with_kin(zend_execute_data *call)
{
    for (uint32_t n = 0; n <= arguments_objects(call); n++) {
        zend_object *object = arguments_object(call, n);

        if (object && connection_group_of(object)) {
            return object;
        }
    }
    return NULL;
}

/* ---- the refusal ---- */

static void append_function(smart_str *text, const zend_function *function)
{
    if (function->common.scope) {
        smart_str_append(text, function->common.scope->name);
        smart_str_appends(text, "::");
    }
    smart_str_append(text, function->common.function_name);
    smart_str_appends(text, "()");
}

static void append_request(smart_str *text, const request_state *of)
{
    const shim_text *method, *uri;

    if (!of->request) {
        smart_str_appends(text, "the worker script");
        return;
    }
    method = &of->request->field[SHIM_METHOD];
    uri = &of->request->field[SHIM_URI];
    smart_str_appendl(text, method->at, method->len);
    smart_str_appendc(text, ' ');
    smart_str_appendl(text, uri->at, uri->len);
}

/* Always true: for the caller's return. */
static bool refuse(const zend_function *called, const char *what, const request_state *user,
                   const zend_function *function)
{
    smart_str text = {0};

    append_request(&text, serving);
    smart_str_appends(&text, " calls ");
    append_function(&text, called);
    smart_str_append_printf(&text, " of a %s that ", what);
    if (user == serving) {
        smart_str_appends(&text, "another Fiber of the same request");
    } else {
        append_request(&text, user);
    }
    smart_str_appends(&text, " waits in");
    if (function) {
        smart_str_appends(&text, ", in ");
        append_function(&text, function);
    }
    smart_str_appends(&text, ": each needs one of its own");
    smart_str_0(&text);
    zend_throw_exception(in_use.exception, ZSTR_VAL(text.s), 0);
    smart_str_free(&text);
    return true;
}

static bool closes(const zend_function *function)
{
    return strstr(ZSTR_VAL(function->common.function_name), "close") != NULL;
}

static bool is_refused_object(zend_execute_data *call)
{
    for (uint32_t n = 0; n <= arguments_objects(call); n++) {
        const zend_object *object = arguments_object(call, n);
        const connection_group *group = object ? connection_group_of(object) : NULL;

        if (group && group->user) {
            return refuse(call->func, ZSTR_VAL(object->ce->name), group->user, group->function);
        }
    }
    return false;
}

static bool is_refused_stream(zend_execute_data *call)
{
    for (uint32_t n = 1; n <= ZEND_CALL_NUM_ARGS(call); n++) {
        const zend_resource *stream = arguments_stream(call, n);
        const stream_use *use =
            stream ? zend_hash_index_find_ptr(&in_use.streams, stream->handle) : NULL;

        if (use && (!use->may_be_shared || closes(call->func))) {
            return refuse(call->func, zend_rsrc_list_get_rsrc_type((zend_resource *)stream),
                          use->user, use->function);
        }
    }
    return false;
}

/* ---- the guard ---- */

/* SQLite connects nowhere, and waits late or never: what says that its objects are of one database
 * is that one makes another. Other extensions are not asked, because most objects that make others
 * (dates, nodes of documents) have no connection. */
static bool is_of_database_file(const zend_function *function)
{
    const zend_module_entry *module = function->internal_function.module;

    return module && (strcmp(module->name, "PDO") == 0 || strcmp(module->name, "sqlite3") == 0);
}

/* What it returns uses the same connection; but not an object of the same class, which is one of
 * its own: a copy, or what a listening socket has accepted. */
static void note_returned(zend_execute_data *call, const zval *returned)
{
    const bool has_opened = in_use.opens == call;
    zend_object *made =
        Z_TYPE_P(returned) == IS_OBJECT && arguments_are_of_extension(call->func, Z_OBJ_P(returned))
            ? Z_OBJ_P(returned)
            : NULL;

    const zend_object *object = object_with_kin(call);

    if (has_opened) {
        in_use.opens = NULL;
    }
    if (!object && made && has_opened) {
        connection_group_found(made);
    } else if (!object && made && Z_TYPE(call->This) == IS_OBJECT &&
               made->ce != Z_OBJ(call->This)->ce && is_of_database_file(call->func)) {
        object = Z_OBJ(call->This);
        connection_group_found(Z_OBJ(call->This));
    }
    if (!object) {
        return;
    }
    if (made && made->ce != object->ce) {
        connection_group_join(connection_group_of(object), made);
    }
    if (Z_TYPE(call->This) == IS_OBJECT) {
        connection_group_join(connection_group_of(object), Z_OBJ(call->This));
    }
}

static void guard(INTERNAL_FUNCTION_PARAMETERS)
{
    const zif_handler original = (zif_handler)EX(func)->internal_function.reserved[in_use.slot];

    if (is_refused_object(execute_data) ||
        (zend_hash_num_elements(&in_use.streams) > 0 && is_refused_stream(execute_data))) {
        return;
    }
    original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
    note_returned(execute_data, return_value);
    connection_group_collect();
}

/* An object or a stream: one of a class, or without a type. */
static bool may_be_either(zend_type type)
{
    return !ZEND_TYPE_IS_SET(type) || ZEND_TYPE_IS_COMPLEX(type);
}

static bool needs_guard(const zend_internal_function *f)
{
    const uint32_t count = f->num_args + (f->fn_flags & ZEND_ACC_VARIADIC ? 1 : 0);

    if (!f->handler || f->reserved[in_use.slot]) {
        return false;
    }
    if (!f->arg_info || (f->scope && !(f->fn_flags & ZEND_ACC_STATIC))) {
        return true;
    }
    /* The first, before those of the parameters, is what it returns. */
    for (uint32_t i = 0; i <= count; i++) {
        if (may_be_either(f->arg_info[(ptrdiff_t)i - 1].type)) {
            return true;
        }
    }
    return false;
}

/* They take a stream, and leave it alone. */
static bool only_asks(const zend_internal_function *f)
{
    return zend_string_equals_literal(f->function_name, "get_resource_id") ||
           zend_string_equals_literal(f->function_name, "get_resource_type");
}

static void guard_all(HashTable *functions)
{
    zend_function *function;

    ZEND_HASH_FOREACH_PTR(functions, function) {
        zend_internal_function *f = &function->internal_function;

        if (f->type == ZEND_INTERNAL_FUNCTION && needs_guard(f) && !only_asks(f)) {
            f->reserved[in_use.slot] = (void *)f->handler;
            f->handler = guard;
        }
    } ZEND_HASH_FOREACH_END();
}

static void forget_use(zval *kept)
{
    free(Z_PTR_P(kept));
}

void in_use_watch(void)
{
    zend_class_entry *class;

    in_use.slot = fiber_tags_place();
    if (in_use.slot < 0) {
        return; /* async mode does not begin then: see fibers_begin() */
    }
    zend_hash_init(&in_use.streams, 0, NULL, forget_use, 1);
    connection_group_watch();
    guard_all(CG(function_table));
    ZEND_HASH_FOREACH_PTR(CG(class_table), class) {
        if (class->type == ZEND_INTERNAL_CLASS) {
            guard_all(&class->function_table);
        }
    } ZEND_HASH_FOREACH_END();
    is_of_php = true;
}

void in_use_declare(void)
{
    zend_class_entry class;

    INIT_NS_CLASS_ENTRY(class, "Tokamak", "ConnectionInUse", NULL);
    in_use.exception = zend_register_internal_class_ex(&class, spl_ce_RuntimeException);
}

/* ---- who waits, in what ---- */

/* A loop over an object, or a property that is looked up when it is read: no function is called for
 * that. */
static zend_object *object_of_instruction(const zend_execute_data *frame)
{
    const zend_op *instruction = frame->opline;
    zend_object_iterator *loop;
    zval *value;

    switch (instruction->opcode) {
    case ZEND_FE_RESET_R:
    case ZEND_FE_RESET_RW:
    case ZEND_FE_FETCH_R:
    case ZEND_FE_FETCH_RW:
    case ZEND_FETCH_OBJ_R:
        break;
    default:
        return NULL;
    }
    if (!(instruction->op1_type & (IS_CV | IS_VAR | IS_TMP_VAR))) {
        return NULL;
    }
    value = ZEND_CALL_VAR(frame, instruction->op1.var);
    ZVAL_DEREF(value);
    if (Z_TYPE_P(value) != IS_OBJECT) {
        return NULL;
    }
    loop = zend_iterator_unwrap(value);
    if (loop) {
        value = &loop->data;
    }
    return Z_TYPE_P(value) == IS_OBJECT && arguments_class_of(Z_OBJ_P(value)) ? Z_OBJ_P(value)
                                                                              : NULL;
}

/* Those that use the connection of what this code was given; NULL: it has no object. */
static connection_group *group_of_call(zend_execute_data *frame)
{
    zend_object *object = NULL;
    connection_group *group;

    if (!frame || !frame->func) {
        return NULL;
    }
    if (frame->func->type != ZEND_INTERNAL_FUNCTION) {
        object = object_of_instruction(frame);
        return object ? connection_group_found(object) : NULL;
    }
    object = object_with_kin(frame);
    for (uint32_t n = 0; n <= arguments_objects(frame) && !object; n++) {
        object = arguments_object(frame, n);
    }
    group = object ? connection_group_found(object) : NULL;
    if (group && Z_TYPE(frame->This) == IS_OBJECT) {
        connection_group_join(group, Z_OBJ(frame->This));
    }
    return group;
}

/* Those whose connection it is that the code which runs now opens, or waits for by this descriptor
 * (-1: by several). NULL: they have no object yet. */
static connection_group *learn(zend_execute_data *frame, int fd)
{
    const bool is_function = frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION;
    connection_group *group = group_of_call(frame);

    if (group) {
        connection_group_take_descriptor(group, fd);
        return group;
    }
    in_use.opens = is_function ? frame : NULL;
    /* One that is being destroyed says good-bye. */
    return connection_group_of_descriptor(fd);
}

void in_use_note_connect(int fd)
{
    if (is_of_php) {
        connection_group_note_closed(fd);
        learn(EG(current_execute_data), fd);
    }
}

static void mark_streams(in_use_mark *mark, zend_execute_data *call, bool may_be_shared)
{
    const uint32_t given = ZEND_CALL_NUM_ARGS(call);

    for (uint32_t n = 1; n <= given && mark->count < IN_USE_AT_ONCE; n++) {
        const zend_resource *stream = arguments_stream(call, n);
        stream_use *use;

        if (!stream || zend_hash_index_exists(&in_use.streams, stream->handle)) {
            continue;
        }
        use = malloc(sizeof(*use));
        if (!use) {
            abort();
        }
        *use = (stream_use){serving, call->func, may_be_shared};
        zend_hash_index_add_new_ptr(&in_use.streams, stream->handle, use);
        mark->resources[mark->count++] = (zend_ulong)stream->handle;
    }
}

void in_use_note_closed(int fd)
{
    if (is_of_php) {
        connection_group_note_closed(fd);
    }
}

/* What only takes is a log, and not a conversation. */
static bool is_answered(const struct pollfd *fds, nfds_t count)
{
    return count != 1 || fds->events != POLLOUT ||
           (syscall(SYS_fcntl, fds->fd, F_GETFL) & O_ACCMODE) != O_WRONLY;
}

/* A wait for time in a call that has an object is a driver's, which is inside of its connection
 * meanwhile and tries again: SQLite, for a lock. */
static connection_group *group_of_wait(const reactor_wait *wait, zend_execute_data *frame)
{
    if (wait->count > 0) {
        /* Of another kind it stands for the answer of a thread, or the end of a process. */
        const bool is_connection = wait->count == 1 && wait->kind == SHIM_RUNS;

        return learn(frame, is_connection ? wait->fds->fd : -1);
    }
    return wait->kind == SHIM_SLEEPS || wait->kind == SHIM_RUNS ? group_of_call(frame) : NULL;
}

void in_use_begin(in_use_mark *mark, const reactor_wait *wait)
{
    zend_execute_data *frame = EG(current_execute_data);
    const zend_function *function =
        frame && frame->func && frame->func->type == ZEND_INTERNAL_FUNCTION ? frame->func : NULL;
    connection_group *group = group_of_wait(wait, frame);

    mark->group = NULL;
    mark->count = 0;
    mark->opens = in_use.opens;
    if (group && !group->user) {
        mark->group = group;
        group->user = serving;
        group->function = function;
        connection_group_hold(group);
    }
    if (function) {
        mark_streams(mark, frame, wait->count == 0 || !is_answered(wait->fds, wait->count));
    }
}

void in_use_end(const in_use_mark *mark)
{
    in_use.opens = mark->opens;
    if (mark->group) {
        mark->group->user = NULL;
        connection_group_let_go(mark->group);
    }
    for (size_t i = 0; i < mark->count; i++) {
        zend_hash_index_del(&in_use.streams, mark->resources[i]);
    }
}
