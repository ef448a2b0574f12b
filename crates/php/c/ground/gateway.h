/* What requests over FastCGI need beyond those over HTTP. */
#ifndef TOKAMAK_GATEWAY_H
#define TOKAMAK_GATEWAY_H

#include "ground/state.h"

void gateway_install(int type, int module_number);
void gateway_show_settings(zend_module_entry *module);
int gateway_fixes_path_info(void);
void gateway_log(const char *message);
/* One error about the request, of three parts. Never jumps. */
void gateway_complain(const char *before, const char *text, const char *after);
const shim_text *gateway_parameter(const shim_request *request, const char *name, size_t len);
int gateway_admits(const shim_request *request);
void gateway_refuse(int status, const shim_text *path);
void gateway_note_failure(void);
int gateway_send_headers(sapi_headers_struct *headers, int status);

#endif
