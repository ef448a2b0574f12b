<?php

// PHP's own log, which Tokamak writes.
return ['default' => 'errorlog', 'channels' => ['errorlog' => ['driver' => 'errorlog']]];
