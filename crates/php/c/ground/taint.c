/* Whether this process can be used for another request. In sealed mode the image knows, since its
 * memory goes back to before the reason was noted. */
#include "ground/taint.h"
#include "ground/state.h"
#include "image.h"

static const char *tainted_by;

void taint_note(const char *reason)
{
    if (shim.sealed) {
        image_note_doubt(reason);
    } else if (!tainted_by) {
        tainted_by = reason;
    }
}

const char *taint_reason(void)
{
    return shim.sealed ? image_doubt() : tainted_by;
}
