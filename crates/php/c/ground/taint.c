/* Whether this process can be used for another request. Where memory goes back to before the reason
 * was noted, the image knows. */
#include "ground/taint.h"
#include "ground/mode.h"
#include "ground/state.h"
#include "image.h"

static const char *tainted_by;

void taint_note(const char *reason)
{
    if (shim.mode->restores_memory) {
        image_note_taint(reason);
    } else if (!tainted_by) {
        tainted_by = reason;
    }
}

const char *taint_reason(void)
{
    return shim.mode->restores_memory ? image_taint() : tainted_by;
}
