/* Which request a context of async mode belongs to.
 *
 * A tag is a place for requests, and the number of the request that had it when the tag was put:
 * places are used again, and a Fiber may be kept for longer than its request.
 */
#include <Zend/zend_extensions.h>

#include "async/fiber_tags.h"

static struct {
    int owner, generation; /* places in each context */
    size_t stale;
} tags;

bool fiber_tags_watch(void)
{
    tags.owner = zend_get_resource_handle("tokamak");
    tags.generation = zend_get_resource_handle("tokamak");
    return tags.owner >= 0 && tags.generation >= 0;
}

int fiber_tags_place(void)
{
    return tags.owner;
}

void fiber_tags_reset(void)
{
    tags.stale = 0;
}

void fiber_tags_begin(zend_fiber_context *made)
{
    made->reserved[tags.owner] = NULL;
}

static fiber_owner *owner_of(const zend_fiber_context *context)
{
    return context->reserved[tags.owner];
}

request_state *fiber_tags_request(const zend_fiber_context *context)
{
    const fiber_owner *owner = owner_of(context);

    return owner ? owner->of : NULL;
}

bool fiber_tags_is_stale(const zend_fiber_context *context)
{
    const fiber_owner *owner = owner_of(context);

    return owner && (uintptr_t)context->reserved[tags.generation] != owner->generation;
}

void fiber_tags_put(zend_fiber_context *context, fiber_owner *owner)
{
    if (fiber_tags_is_stale(context)) {
        tags.stale--;
    } else if (owner_of(context)) {
        owner_of(context)->count--;
    }
    context->reserved[tags.owner] = owner;
    context->reserved[tags.generation] = (void *)(owner ? owner->generation : 0);
    if (owner) {
        owner->count++;
    }
}

size_t fiber_tags_end(fiber_owner *owner)
{
    tags.stale += owner->count;
    owner->count = 0;
    owner->generation++;
    return tags.stale;
}
