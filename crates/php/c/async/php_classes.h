/* Classes of the server that are written in PHP. */
#ifndef TOKAMAK_PHP_CLASSES_H
#define TOKAMAK_PHP_CLASSES_H

/* At module start-up. */
void php_classes_install(void);

#endif
