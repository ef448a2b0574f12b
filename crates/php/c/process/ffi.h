/* Whether requests call code in C by themselves, through FFI. */
#ifndef TOKAMAK_FFI_H
#define TOKAMAK_FFI_H

void ffi_watch(void);
/* PHP has FFI. */
int ffi_is_watched(void);
/* Whether this request, or the boot, has called any. */
int ffi_was_called(void);

#endif
