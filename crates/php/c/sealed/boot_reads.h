/* What a boot reads that another boot, or a request, would find otherwise: for the seal report. */
#ifndef TOKAMAK_BOOT_READS_H
#define TOKAMAK_BOOT_READS_H

/* Notes such reads from now on. */
void boot_reads_watch(void);
/* Lists them, for the report. */
void boot_reads_push(void);

#endif
