/* Results that are to come, and who waits for them.
 *
 * Who waits for several has one wait in the reactor, which no event ends but only the outcome of a
 * promise, or time. A link per promise leads there. All of it is in memory of the one who waits,
 * where it stays until the wait is over.
 */
#include "async/promises.h"
#include "async/fibers.h"
#include "async/fibers_parking.h"
#include "async/parts.h"
#include "async/reactor.h"

typedef struct gathering {
    reactor_wait wait;
    promise **some;
    size_t count;
    promises_goal goal;
    size_t left; /* outcomes that are still missing */
} gathering;

typedef struct promise_link {
    gathering *to;
    struct promise_link *next, **before;
} promise_link;

/* ---- outcomes ---- */

static void notify(promise *p)
{
    while (p->waiting) {
        promise_link *l = p->waiting;

        p->waiting = l->next;
        l->before = NULL;
        if ((p->outcome == PROMISE_REJECTED && l->to->goal != PROMISES_EACH) || l->to->left <= 1) {
            l->to->left = 0;
            reactor_finish(&l->to->wait);
        } else {
            l->to->left--;
        }
    }
}

void promise_fulfill(promise *p, zval *result)
{
    ZVAL_COPY(&p->result, result);
    p->outcome = PROMISE_FULFILLED;
    notify(p);
}

void promise_reject(promise *p, zend_object *exception)
{
    p->exception = exception;
    p->outcome = PROMISE_REJECTED;
    notify(p);
}

void promise_free(promise *p)
{
    zval_ptr_dtor(&p->result);
    if (p->exception) {
        OBJ_RELEASE(p->exception);
    }
}

/* ---- waiting ---- */

/* How many outcomes are missing for it to be over. */
static size_t missing(promise **some, size_t count, promises_goal goal)
{
    size_t pending = 0;

    for (size_t i = 0; i < count; i++) {
        if (some[i]->outcome == PROMISE_PENDING) {
            pending++;
        } else if (goal == PROMISES_FIRST ||
                   (goal == PROMISES_ALL && some[i]->outcome == PROMISE_REJECTED)) {
            return 0;
        }
    }
    return goal == PROMISES_FIRST ? pending > 0 : pending;
}

/* ---- circles ----
 *
 * A coroutine that awaits others without a time limit goes on when one of them is over (a race), or
 * when all are. Those that wait for each other in a circle never do. The last of them to wait looks
 * for the others: it takes all that it depends on to be stuck, and takes back what is not.
 */

/* Each search has a number, so that no mark of an earlier one has to be wiped off. */
static uint64_t search;

static bool is_stuck(const promise *p)
{
    return p->outcome == PROMISE_PENDING && p->made_in && p->made_in->looked_at == search &&
           p->made_in->is_stuck;
}

static part *look_at(part *found, part *last)
{
    found->looked_at = search;
    found->is_stuck = found->awaits != NULL;
    found->looked_next = NULL;
    if (last) {
        last->looked_next = found;
    }
    return found;
}

/* Lists what this part depends on, itself first. Whether it depends on itself. */
static bool list_dependencies(part *here)
{
    part *last = look_at(here, NULL);
    bool is_among = false;

    for (part *p = here; p; p = p->looked_next) {
        for (size_t i = 0; p->awaits && i < p->awaits->count; i++) {
            const promise *awaited = p->awaits->some[i];
            part *found = awaited->outcome == PROMISE_PENDING ? awaited->made_in : NULL;

            is_among |= found == here;
            if (found && found->looked_at != search) {
                last = look_at(found, last);
            }
        }
    }
    return is_among;
}

static bool can_go_on(const gathering *g)
{
    for (size_t i = 0; i < g->count; i++) {
        if (is_stuck(g->some[i]) == (g->goal != PROMISES_FIRST)) {
            return g->goal == PROMISES_FIRST;
        }
    }
    return g->goal != PROMISES_FIRST;
}

static bool is_in_circle(part *here)
{
    bool has_changed = true;

    search++;
    if (!list_dependencies(here)) {
        return false;
    }
    while (has_changed && here->is_stuck) {
        has_changed = false;
        for (part *p = here; p; p = p->looked_next) {
            if (p->is_stuck && can_go_on(p->awaits)) {
                p->is_stuck = false;
                has_changed = true;
            }
        }
    }
    return here->is_stuck;
}

promise *promises_circle(promise **some, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_stuck(some[i])) {
            return some[i];
        }
    }
    return NULL;
}

/* ---- parking ---- */

static void join(promise_link *l, promise *p)
{
    l->next = p->waiting;
    l->before = &p->waiting;
    if (l->next) {
        l->next->before = &l->next;
    }
    p->waiting = l;
}

static void leave(promise_link *l)
{
    if (l->before) {
        *l->before = l->next;
        if (l->next) {
            l->next->before = l->before;
        }
    }
}

static void park(gathering *here)
{
    promise_link one, *links = &one;

    if (here->count > 1) {
        links = safe_emalloc(here->count, sizeof(*links), 0);
    }
    for (size_t i = 0; i < here->count; i++) {
        links[i] = (promise_link){.to = here};
        if (here->some[i]->outcome == PROMISE_PENDING) {
            join(&links[i], here->some[i]);
        }
    }
    fibers_park(&here->wait);
    for (size_t i = 0; i < here->count; i++) {
        leave(&links[i]);
    }
    if (links != &one) {
        efree(links);
    }
}

promises_wait promises_await(promise **some, size_t count, promises_goal goal, uint64_t deadline)
{
    gathering here = {.wait.deadline = deadline,
                      .wait.kind = SHIM_AWAITS_OTHERS,
                      .some = some,
                      .count = count,
                      .goal = goal,
                      .left = missing(some, count, goal)};
    part *running;

    if (here.left == 0) {
        return PROMISES_OVER;
    }
    if (!fibers_may_park()) {
        return PROMISES_STUCK;
    }
    running = parts_running();
    if (goal != PROMISES_EACH && deadline == REACTOR_FOREVER) {
        running->awaits = &here;
        if (is_in_circle(running)) {
            running->awaits = NULL;
            return PROMISES_CIRCLE;
        }
    }
    park(&here);
    running->awaits = NULL;
    return missing(some, count, goal) == 0 ? PROMISES_OVER : PROMISES_LATE;
}
