/* What classic mode puts back after a request. */
#ifndef TOKAMAK_CLASSIC_H
#define TOKAMAK_CLASSIC_H

void classic_begin(void);
void classic_end(void);
/* Has C code noticed that is called through FFI. */
void classic_notice_calls(void);
/* PHP has FFI. */
int classic_may_call_c(void);
/* Whether this request, or the boot, has called any. */
int classic_called_c(void);
void classic_note_environment(void);
void classic_note_text_domain(void);

#endif
