/* What classic mode puts back after a request. */
#ifndef TOKAMAK_CLASSIC_H
#define TOKAMAK_CLASSIC_H

void classic_begin(void);
void classic_end(void);
void classic_note_environment(void);
void classic_note_text_domain(void);

#endif
