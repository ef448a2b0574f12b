/* The headers that say what PHP and its bundled extensions keep once for a process. */
#include <main/php.h>
#include <main/SAPI.h>
#include <main/php_output.h>
#include <Zend/zend_fibers.h>
#include <Zend/zend_observer.h>
#include <Zend/zend_signal.h>
#include <Zend/zend_virtual_cwd.h>
#include <ext/date/php_date.h>
#include <ext/filter/php_filter.h>
#include <ext/json/php_json.h>
/* As distributions build it; its header does not say. */
#define HAVE_MBREGEX 1
#include <ext/mbstring/mbstring.h>
#include <ext/pcre/php_pcre.h>
#include <ext/random/php_random.h>
#include <ext/session/php_session.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/file.h>
#include <ext/standard/php_array.h>
