/* What extensions keep once for a process and async mode keeps for each request, as memory. */
#ifndef TOKAMAK_OWN_EXTENSIONS_H
#define TOKAMAK_OWN_EXTENSIONS_H

#include "async/own_memory.h"

/* Of date, libxml, imap, mysqli, mbstring, filter, zlib, assert(), and one of each whose globals
 * begin with it. */
enum { MOST_ZLIB_ROWS = 4, MOST_EXTENSION_ROWS = 2 + 2 + 1 + 3 + 16 + 1 + MOST_ZLIB_ROWS + 1 + 3 };

/* Those of the extensions that this PHP has. How many. */
size_t own_extensions_find(own_row rows[MOST_EXTENSION_ROWS]);

#endif
