/* The modes in which this program serves. */
#ifndef TOKAMAK_MODES_H
#define TOKAMAK_MODES_H

#include "ground/mode.h"

/* Of classic and worker mode, which differ in the script alone; of sealed and of async mode. */
extern const mode mode_plain, mode_sealed, mode_async;

#endif
